"""A launcher for ``submit=`` that needs neither Spark nor Java, for tests of DAGs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.launch import Launch
from airflow_backfill.testing.applications import main

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context


class RunHere(BaseOperator):
    """Runs an application without Spark in the task's own process."""

    template_fields: Sequence[str] = ()

    def __init__(self, *, launch: Launch, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.launch = launch

    def execute(self, context: Context) -> None:
        main(Path(self.launch.application).stem, self.launch.arguments)


def run_here(launch: Launch) -> RunHere:
    """Runs an application to its end without Spark, for ``submit=``.

    The tasks of a build do what they do with Spark: they plan, wait, retry, fail, hand over and emit assets. The source
    is a real Delta table, of which only the log is read; the target gets a real Delta log with the build's records.
    Nothing is proven about rows: none is read or written, their numbers are made up, and nobody looks at ``select``,
    ``where`` and the key. A target that Spark has made is refused (``TARGET_EXISTS``), and so is a topic.
    """
    return RunHere(task_id=launch.task_id.rpartition(".")[2], launch=launch)


def without_spark(dag: DAG) -> DAG:
    """The same DAG, with ``run_here`` for each of its tasks that would start Spark.

    The consumers of the log wait for neither approval nor window, only the gates do. ``dag.test()`` runs one task after
    the other, in any order: the approval might come after the task that waits for it.
    """
    for task in dag.tasks:
        if hasattr(task, "partial_kwargs"):
            task.partial_kwargs["submit"] = run_here
        elif hasattr(task, "submit"):
            task.submit = run_here
        if isinstance(task, ConsumeLogOperator):
            task.approval = task.window = None
    return dag
