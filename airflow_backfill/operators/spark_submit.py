"""spark-submit, the default launcher of applications.

The only file that uses private parts of Airflow. An application belongs to an attempt, so its handle is stored under
the attempt's name. ``tests/operators/test_spark_submit.py`` checks that the installed version has these parts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.hooks.kafka import inherited
from airflow_backfill.operators.launch import Launch

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from pydantic import JsonValue

ARGUMENTS = {
    name: parameter
    for name, parameter in inspect.signature(SparkSubmitOperator.__init__).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "application_args"
}
"""The arguments of Airflow's operator that a task may have. Those of the application are ours."""


def with_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Add ``ARGUMENTS`` to the signature of a constructor: Airflow looks there for what ``default_args`` and
    ``partial`` may contain.
    """
    *own, rest = inspect.signature(init).parameters.values()
    init.__signature__ = inspect.Signature([*own, *ARGUMENTS.values(), rest])  # type: ignore[attr-defined]
    return init


def execute_inside(operator: BaseOperator, context: Context) -> None:
    """Execute an operator inside of another one's task. Without its mark Airflow warns that this is a mistake."""
    mark = {f"{type(operator).__name__}__sentinel": ExecutorSafeguard.sentinel_value}
    operator.execute(context, **mark)


class SparkSubmit(SparkSubmitOperator):
    """Submits one application, or rejoins it if it still runs after its worker died.

    :param launch: the application. spark-submit inherits its environment.
    :param arguments: the task's values for ``ARGUMENTS``, already rendered.
    """

    template_fields = ()

    def __init__(self, *, launch: Launch, arguments: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(
            **{
                **kwargs,
                **arguments,
                "task_id": launch.task_id.rpartition(".")[2],
                "application": launch.application,
                "application_args": list(launch.arguments),
                "py_files": launch.py_files,
                "name": launch.name,
            }
        )
        self.external_id_key = f"spark_job_id/{launch.attempt}"
        self.environment = launch.environment

    def execute(self, context: Context) -> None:
        """Submit the application and wait for its end; only wait if it was already submitted."""
        with inherited(self.environment):
            super().execute(context)

    def still_runs(self, context: Context) -> bool:
        """Whether the application was submitted and still runs, according to the cluster."""
        handle = context["task_state_store"].get(self.external_id_key) if self.durable else None
        if handle is None:
            return False
        try:
            active: bool = self.is_job_active(self.get_job_status(handle, context))
        except Exception:
            # A second application is safe, because it fences the first. The cluster may never answer.
            self.log.warning(
                "cannot get the state of application %s from the cluster; starting another one", handle, exc_info=True
            )
            return False
        if active:
            self.log.info("rejoining application %s", handle)
        return active

    @property
    def in_cluster_mode(self) -> bool:
        """Whether the driver starts on another machine, which does not inherit the environment."""
        return bool(self._get_hook()._connection["deploy_mode"] == "cluster")

    @property
    def on_standalone_master(self) -> bool:
        """Whether the application is submitted to a standalone master."""
        return str(self._get_hook()._connection["master"]).startswith("spark://")

    def execute_resumable(self, context: Context) -> None:
        """Submit and store the handle under the attempt's name; only wait for the application if there is a handle."""
        store = context["task_state_store"]
        handle = store.get(self.external_id_key) if self.durable else None
        if handle is None:
            store.delete(self._K8S_DRIVER_STATUS_KEY)  # may be of the previous application
            handle = self.submit_job(context)
            if self.durable and handle is not None:
                store.set(self.external_id_key, handle, retention=NEVER_EXPIRE)
        self.poll_until_complete(handle, context)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        if self._hook is not None and self._hook._is_yarn_cluster_mode:
            # Only a submission sets this. Without it, a kill after a reconnect does not reach the application.
            self._hook._yarn_application_id = cast("str", external_id)
        super().poll_until_complete(external_id, context)
