from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.model.record import Layout
from airflow_backfill.core.reports.attempt_status import AttemptStatus, Instance, Life
from airflow_backfill.core.reports.due import due, to_clear
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.values.phase import Phase
from tests.core.states import CERTIFICATE, V, state

HALF = state(Phase.SNAPSHOT, AtFile(0))
ARRIVED = state(Phase.CATCH_UP, handoff=V)


@pytest.mark.parametrize(
    ("build", "tasks"),
    [
        (HALF, ("snapshot",)),
        (state(Phase.SNAPSHOT, Consumed(V)), ("consume_log",)),
        (state(Phase.CONSUME_LOG), ("consume_log", "catch_up")),
        (state(Phase.CATCH_UP, handoff=V + 2), ("catch_up",)),
        (ARRIVED, ("verify",)),
        (state(Phase.CATCH_UP, handoff=V, certificate=CERTIFICATE), ("finish",)),
        (state(Phase.FINISHED, handoff=V), ("upstream",)),
        (state(Phase.CANCELLED), ("plan",)),
    ],
)
def test_each_state_has_a_task_that_goes_on_with_it(build, tasks) -> None:
    assert due(build) == tasks


def tried(
    generation: int, task: str, outcome: str | None = None, lane: int = -1, run: str = "r", **more: object
) -> AttemptStatus:
    life = Life.RUNNING if outcome is None else Life.ENDED
    where = Instance("d", f"orders.{task}", run, lane)
    return replace(AttemptStatus(generation, f"a{generation}", task, life, where, outcome=outcome), **more)


def cleared(build, *attempts: AttemptStatus) -> list[tuple[str, str, int]]:
    return [(one.task_id, one.run_id, one.map_index) for one in to_clear(build, attempts)]


def test_the_task_whose_attempt_failed_is_cleared() -> None:
    plan, ok = tried(1, "plan", "OK"), tried(2, "snapshot", "OK")
    assert cleared(HALF, plan, tried(2, "snapshot", "KEY_NULL")) == [("orders.snapshot", "r", -1)]
    assert cleared(ARRIVED, plan, ok, tried(3, "verify", "VERIFICATION_FAILED")) == [("orders.verify", "r", -1)]


def test_a_task_that_died_or_whose_work_is_not_done_is_cleared_too() -> None:
    assert cleared(HALF, tried(2, "snapshot", life=Life.SILENT)) == [("orders.snapshot", "r", -1)]
    assert cleared(ARRIVED, tried(2, "verify", "OK")) == [("orders.verify", "r", -1)], "it was repaired since"


def test_a_look_that_failed_is_no_work_to_clear() -> None:
    for task in ("prove", "explain"):
        assert cleared(HALF, tried(2, task, "EXPRESSION_FAILED")) == []


def test_nothing_is_cleared_that_runs() -> None:
    assert cleared(HALF, tried(2, "snapshot", "KEY_NULL"), tried(3, "snapshot")) == []


def test_of_the_lanes_only_those_that_failed_are_cleared() -> None:
    lanes = [tried(2, "snapshot", "KEY_NULL", 0), tried(3, "snapshot", None, 1), tried(4, "snapshot", "KEY_NULL", 2)]
    assert cleared(HALF, *lanes, tried(5, "snapshot", "OK", 2)) == [("orders.snapshot", "r", 0)]


def test_a_lane_that_was_marked_as_done_before_it_began_is_cleared() -> None:
    half = replace(state(Phase.SNAPSHOT, Consumed(V), AtFile(0), Consumed(V)), layout=Layout(1, 3))
    lanes = [tried(2, "snapshot", "OK", 0), tried(3, "snapshot", "OK", 2)]
    assert cleared(half, *lanes, tried(4, "consume_log", "NOT_ALLOWED_NOW")) == [("orders.snapshot", "r", 1)]


def test_only_the_newest_run_is_cleared() -> None:
    old, new = tried(2, "snapshot", "KEY_NULL", run="old"), tried(3, "snapshot", "KEY_NULL", run="new")
    assert cleared(HALF, old, new) == [("orders.snapshot", "new", -1)]


def test_an_application_that_failed_on_the_way_to_work_that_is_due_is_cleared() -> None:
    assert cleared(ARRIVED, tried(2, "snapshot", life=Life.SILENT)) == [("orders.snapshot", "r", -1)]


def test_nobody_is_cleared_whom_airflow_does_not_know() -> None:
    assert cleared(HALF, tried(2, "snapshot", "KEY_NULL", instance=None)) == [] == cleared(HALF)
