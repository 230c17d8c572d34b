from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.ledger import control_folder
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.spending import Spending
from tests.core.values.test_cost import TOLD

ONE = Cost.of_attempt(TOLD)


def folder(place: Path) -> ControlFolder:
    return ControlFolder.beside(str(place / "target"))


def spent(control: ControlFolder, task: str = "snapshot", build: str | None = None, **told: Any) -> Attempt:
    """An attempt that has ended, and has told its cost. A plan is that of ``build``."""
    me = control.draw_attempt({"task": task}, floor=0)
    control.announce(me, {"cost": {**TOLD, **told}})
    control.store_outcome(me, {"code": "OK", "result": {"build": build} if build else {}})
    return me


def times(one: Cost, count: int) -> Cost:
    return sum((one for _ in range(count)), Cost())


def test_the_costs_of_all_attempts_are_added(tmp_path: Path) -> None:
    control = folder(tmp_path)
    spent(control, "plan", "b1")
    spent(control)
    me = control.draw_attempt({"task": "finish"}, floor=0)
    assert control.cost() == ONE + ONE + Cost(1, 1), "one has told nothing"
    assert control.cost({me: TOLD}) == times(ONE, 3), "its costs by now"


def test_the_workers_requests_are_added_over_its_tries(tmp_path: Path) -> None:
    control = folder(tmp_path)
    me = spent(control, "plan", "b1")
    control.add_requests(me, 40)
    control.add_requests(me, 2)
    assert control.cost() == ONE + Cost(worker_requests=42)


def test_forgotten_attempts_stay_in_the_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", 3)
    control = folder(tmp_path)
    spent(control, "plan", "b1")
    for count in range(2, 12):
        control.add_requests(spent(control), 1)
        assert control.cost() == times(ONE, count) + Cost(worker_requests=count - 1)
    assert len(control.attempts()) == 3


def test_an_attempt_without_an_outcome_is_kept_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", 2)
    control = folder(tmp_path)
    spent(control, "plan", "b1")
    killed = control.draw_attempt({"task": "snapshot"}, floor=0)
    control.announce(killed, {"cost": TOLD})
    for count in range(3, 9):
        spent(control)
        assert control.cost() == times(ONE, count)
    assert control.drawn(killed) is not None


def test_a_build_that_is_planned_anew_begins_with_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", 4)
    control = folder(tmp_path)
    for task, build in (("plan", "b1"), ("snapshot", None), ("plan", "b1")):
        spent(control, task, build)
    assert control.cost() == times(ONE, 3), "a plan that goes on with a build belongs to it"
    spent(control, "plan", "b2")
    assert control.cost() == ONE
    for count in range(2, 9):
        spent(control)
        assert control.cost() == times(ONE, count)


@pytest.mark.parametrize("file", ["000000001.json", "000000001.started.json", "000000002.started.json"])
def test_a_damaged_file_makes_the_sum_a_lower_bound(file: str, tmp_path: Path) -> None:
    control = folder(tmp_path)
    spent(control, "plan", "b1")
    spent(control)
    (tmp_path / "target.backfill" / "attempts" / file).write_text("{")
    assert control.cost() == (times(ONE, 2) if file == "000000001.json" else ONE + Cost(1, 1))


def test_an_attempt_that_is_deleted_while_costs_are_added_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, other = folder(tmp_path), folder(tmp_path)
    spent(control, "plan", "b1")
    spent(control)
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", 2)
    read = Spending._attempt
    races = iter([lambda: spent(other)])

    def attempt(self: Spending, *given: Any) -> Any:
        next(races, lambda: None)()
        return read(self, *given)

    monkeypatch.setattr(Spending, "_attempt", attempt)
    assert control.cost() == times(ONE, 2), "those that were there when it began"
    assert not Path(tmp_path / "target.backfill" / "attempts" / "000000001.json").exists()
    assert control.cost() == times(ONE, 3)
