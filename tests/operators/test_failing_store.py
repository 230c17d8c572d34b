"""A store that fails once, at any operation of a build's tasks: the tries of Airflow lead to the same end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.testing.launcher import run_here
from tests.airflow.task import new_context

TRIES = 3


@pytest.mark.soak
@pytest.mark.parametrize("done", [False, True], ids=["not done", "answer lost"])
def test_at_any_operation(source, tmp_path, failing, done):
    with fresh(tmp_path) as target:
        whole_build(source, target)
    total, failing.done = failing.count, done
    assert total > 500
    for at in range(1, total, 7):
        with fresh(tmp_path) as target:
            failing.count, failing.at = 0, at
            whole_build(source, target)
            failing.at = 0
            assert BuildReader(target).state().phase is Phase.FINISHED


@contextmanager
def fresh(folder) -> Iterator[str]:
    target = folder / "target"
    yield str(target)
    for place in (target, folder / "target.backfill"):
        shutil.rmtree(place)


def whole_build(source, target: str) -> None:
    """Each task, with its tries. A failure that Airflow would not retry is raised."""
    place = {"task_id": "t", "target": target, "submit": run_here}
    run(PlanOperator, build_name="orders", source=str(source), key=["id"], **place)
    run(SnapshotOperator, **place)
    run(ConsumeLogOperator, max_lag=0, **place)
    run(CatchUpOperator, max_lag=0, **place)
    run(VerifyOperator, **place)
    run(FinishOperator, **place)


def run(kind: Any, **options: Any) -> None:
    context = new_context()
    for left in reversed(range(TRIES)):
        try:
            return kind(**options).execute(context)
        except AirflowFailException:
            raise
        except AirflowException:
            if not left:
                raise
