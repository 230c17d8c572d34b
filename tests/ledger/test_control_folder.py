from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.control_folder import SUFFIX, ControlFolder, location_beside
from airflow_backfill.ledger.local_store import LocalStore
from tests.core.model_target import Model
from tests.ledger.processes import let_go, started

EIGHT = """
import sys
import time
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.control_folder import ControlFolder
control, what = ControlFolder.beside(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    if what == "attempts":
        me = control.draw_attempt({"task": "snapshot"}, floor=0)
        print(me.generation, me.name, flush=True)
    else:
        print(control.order("b1", Command(Verb.THROTTLE, int(what))), what, flush=True)
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


@pytest.fixture
def control(target: str) -> ControlFolder:
    return ControlFolder.beside(target)


def eight_processes(target: str, arguments: list[str]) -> list[tuple[int, str]]:
    """What eight processes print that work on one folder at the same time: numbers with a text each."""
    processes = [started(EIGHT, target, argument) for argument in arguments]
    let_go(processes)
    lines = [line.split() for process in processes for line in process.communicate()[0].splitlines()]
    return [(int(number), text) for number, text in lines]


def test_the_folder_lies_beside_the_target_and_not_in_it() -> None:
    assert location_beside("/marts/orders/") == location_beside("/marts/orders") == "/marts/orders" + SUFFIX
    assert location_beside("s3://b/orders") == "s3://b/orders.backfill"


def test_nothing_is_made_by_looking(control: ControlFolder, tmp_path: Path) -> None:
    assert control.attempts() == [] and control.commands("b1") == []
    assert control.plan("b1") is None and control.outcome(Attempt(1, "x")) is None
    assert control.announced(Attempt(1, "x")) is None
    assert list(tmp_path.iterdir()) == []


# --- attempts ---


@pytest.mark.slow
def test_eight_processes_draw_eighty_attempts_with_numbers_of_their_own(target: str, control: ControlFolder) -> None:
    drawn = eight_processes(target, ["attempts"] * 8)
    assert sorted(generation for generation, _ in drawn) == list(range(1, 81))
    assert len({name for _, name in drawn}) == 80
    assert {(n, document["attempt"]) for n, document in control.attempts()} == set(drawn)


def test_an_attempt_is_newer_than_all_before_and_than_the_log_knows(control: ControlFolder) -> None:
    first = control.draw_attempt({"task": "plan"}, floor=0)
    second = control.draw_attempt({"task": "snapshot"}, floor=9)
    third = control.draw_attempt({"task": "snapshot"}, floor=4)
    assert [a.generation for a in (first, second, third)] == [1, 10, 11]
    assert [document["task"] for _, document in control.attempts()] == ["plan", "snapshot", "snapshot"]


def test_an_outcome_is_what_the_attempt_left_behind(control: ControlFolder) -> None:
    me, other = control.draw_attempt({}, floor=0), control.draw_attempt({}, floor=0)
    assert control.outcome(me) is None
    begun = time.time_ns() // 1_000_000
    control.announce(me, {"url": "http://host:4040"})
    control.store_outcome(me, {"code": "FENCED", "data": {"by": "x"}})
    announced, outcome = control.announced(me), control.outcome(me)
    assert announced is not None and outcome is not None
    assert begun <= announced.pop("at") <= outcome.pop("at") <= time.time_ns() // 1_000_000
    assert announced == {"url": "http://host:4040", "attempt": me.name}
    assert outcome == {"code": "FENCED", "data": {"by": "x"}, "attempt": me.name}
    assert control.outcome(other) is None


def test_after_a_lost_folder_numbers_go_on_and_old_outcomes_belong_to_nobody(target: str) -> None:
    before = ControlFolder.beside(target)
    old = [before.draw_attempt({}, floor=0) for _ in range(3)][-1]
    shutil.rmtree(target + SUFFIX)
    after = ControlFolder.beside(target)
    new = after.draw_attempt({}, floor=old.generation)
    assert new.generation == 4
    again = Attempt(new.generation, old.name)
    after.store_outcome(again, {"code": "OK"})
    assert after.outcome(new) is None and after.outcome(again) is not None


def test_a_lost_folder_without_a_log_gives_a_number_twice_and_never_a_name(target: str) -> None:
    old = ControlFolder.beside(target).draw_attempt({}, floor=0)
    shutil.rmtree(target + SUFFIX)
    new = ControlFolder.beside(target).draw_attempt({}, floor=0)
    assert new.generation == old.generation and new.name != old.name


# --- commands ---


def test_commands_are_numbered_in_their_order(control: ControlFolder) -> None:
    given = [Command(Verb.PAUSE), Command(Verb.THROTTLE, 70), Command(Verb.THROTTLE), Command(Verb.CANCEL, drop=True)]
    assert [control.order("b1", command) for command in given] == [1, 2, 3, 4]
    assert control.commands("b1") == list(enumerate(given, start=1))


def test_commands_of_another_build_of_the_target_are_none_of_this_ones(control: ControlFolder) -> None:
    for build, verb in (("b1", Verb.PAUSE), ("b2", Verb.HOLD), ("b1", Verb.RESUME)):
        control.order(build, Command(verb))
    assert control.commands("b1") == [(1, Command(Verb.PAUSE)), (3, Command(Verb.RESUME))]
    assert control.commands("b2") == [(2, Command(Verb.HOLD))] and control.commands("b3") == []


@pytest.mark.slow
def test_eight_processes_give_eighty_commands_and_none_is_lost(target: str, control: ControlFolder) -> None:
    given = eight_processes(target, [str(n) for n in range(8)])
    assert sorted(number for number, _ in given) == list(range(1, 81))
    assert [(n, str(c.rate)) for n, c in control.commands("b1")] == sorted(given)


def test_after_a_lost_folder_commands_go_on_above_the_last_that_was_acknowledged(target: str) -> None:
    before = ControlFolder.beside(target)
    for _ in range(5):
        before.order("b1", Command(Verb.PAUSE))
    shutil.rmtree(target + SUFFIX)
    after = ControlFolder.beside(target)
    assert after.order("b1", Command(Verb.RESUME), floor=5) == 6
    assert after.commands("b1") == [(6, Command(Verb.RESUME))]


@pytest.mark.parametrize(
    "document",
    [
        {"build": "b1"},
        {"build": "b1", "verb": "explode", "rate": None, "drop": False, "byte_rate": None},
        {"build": "b1", "verb": "throttle", "rate": -5, "drop": False, "byte_rate": None},
        {"build": "b1", "verb": "pause", "rate": 5, "drop": False, "byte_rate": None},
        {"build": "b1", "verb": "throttle", "rate": "5", "drop": False, "byte_rate": None},
        {"build": "b1", "verb": "pause", "rate": None, "drop": False, "byte_rate": None, "since": "now"},
    ],
    ids=repr,
)
def test_what_is_no_command_is_refused_and_not_skipped(
    document: Mapping[str, Any], target: str, control: ControlFolder
) -> None:
    control.order("b1", Command(Verb.PAUSE))
    Path(target + SUFFIX, "commands", "000000002.json").write_text(json.dumps(document))
    with pytest.raises(RecordInvalid):
        control.commands("b1")
    assert control.commands("b2") == []


# --- digests ---


def test_digests_are_read_side_by_side(target: str) -> None:
    """A build of some weeks has thousands, and on an object store each takes a while."""

    class Slow(LocalStore):
        def read(self, name: str, limit: int) -> bytes:
            both.wait()
            return super().read(name, limit)

    both = Barrier(2, timeout=30)
    control = ControlFolder(Slow(location_beside(target)))
    for number in range(4):
        control.store_digest("b1", {"epoch": number}, [number, "0"])
    assert sorted(found["piece"]["epoch"] for found in control.digests("b1")) == [0, 1, 2, 3]


# --- plans ---


def test_the_copy_of_a_plan_is_the_plan(control: ControlFolder) -> None:
    plan = Model().draft()
    control.store_plan(plan)
    assert control.plan(plan.build) == plan and control.plan("b2") is None


def test_the_first_copy_of_a_plan_stays(control: ControlFolder) -> None:
    plan = Model().draft()
    control.store_plan(plan)
    control.store_plan(Model(epoch=8).draft())
    assert control.plan(plan.build) == plan


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"airflow_backfill_plan":1}', '{"airflow_backfill_plan":2}']
)
def test_a_damaged_copy_of_a_plan_is_refused_and_replaced(content: str, target: str, control: ControlFolder) -> None:
    plan = Model().draft()
    control.store_plan(plan)
    Path(target + SUFFIX, "plans", f"{plan.build}.json").write_text(content)
    with pytest.raises(RecordInvalid):
        control.plan(plan.build)
    control.store_plan(plan)
    assert control.plan(plan.build) == plan


@pytest.mark.parametrize("build", ["../x", "a/../../x", "/x", ".hidden/x", "a\nb"])
def test_a_build_cannot_name_a_file_outside_the_folder(build: str, control: ControlFolder, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec):
        control.plan(build)
    assert list(tmp_path.iterdir()) == []
