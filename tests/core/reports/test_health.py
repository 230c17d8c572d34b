from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.errors import DocumentDamaged, SourceUnavailable
from airflow_backfill.core.reports.attempt_status import SILENT_MS, STARTING_MS, AttemptStatus, Instance, Life
from airflow_backfill.core.reports.health import NEXT_MS, STUCK_MS, Condition, Health, health, health_of_plan, in_words
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.control import Command, Control, Verb, obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.signature import Signature
from tests.core.states import CERTIFICATE, V, state

NOW = 100_000_000
ANN = Signature("ann", "night shift", 5)
HALF = state(Phase.SNAPSHOT, AtFile(0))
RUNS = AttemptStatus(4, "me", "snapshot", Life.RUNNING, drawn=NOW - 9_000, started=NOW - 8_000, seen=NOW)
STARTS = AttemptStatus(4, "me", "snapshot", Life.STARTING, drawn=NOW - 9_000)
DEAD = replace(RUNS, life=Life.SILENT, seen=NOW - 10**7, started=NOW - 2 * 10**7)
OK = AttemptStatus(4, "me", "snapshot", Life.ENDED, drawn=5, ended=NOW - 9_000, outcome="OK")
LOST = replace(OK, outcome="APPLICATION_FAILED", retry=True, message="the worker died")
WRONG = replace(OK, outcome="KEY_NULL", message="3 rows have no key")
FENCED = replace(OK, generation=5, outcome="FENCED", message="a newer attempt")
PROVES = replace(RUNS, generation=6, task="prove")


def asked(build: BuildState, *tried: AttemptStatus, commands: tuple[Command, ...] = (), **more: Any) -> Health:
    numbered = list(enumerate(commands, start=build.control.number + 1))
    return health(build, obey(build.control, numbered), numbered, tried, more.pop("trouble", None), NOW, **more)


def order(verb: Verb, **options: Any) -> Command:
    return Command(verb, signed=ANN, **options)


SITUATIONS: dict[str, tuple[Health, Condition, str]] = {
    "runs": (asked(HALF, RUNS), Condition.WORKING, "attempt 4 (snapshot)"),
    "paused, and an attempt looks": (asked(HALF, RUNS, commands=(order(Verb.PAUSE),)), Condition.PAUSED, "night shift"),
    "paused, and nobody runs": (asked(HALF, OK, commands=(order(Verb.PAUSE),)), Condition.PAUSED, "a resume lifts it"),
    "rate 0": (asked(HALF, RUNS, commands=(order(Verb.THROTTLE, rate=0),)), Condition.PAUSED, "the rate is 0"),
    "a limit": (
        asked(state(Phase.SNAPSHOT, AtFile(0), control=Control(1, rate=5), due=NOW + 60_000), RUNS),
        Condition.THROTTLED,
        "the next round may begin in 60 seconds",
    ),
    "a limit that lets pass": (
        asked(state(Phase.SNAPSHOT, AtFile(0), control=Control(1, rate=5), due=NOW), RUNS),
        Condition.WORKING,
        "attempt 4",
    ),
    "a round that failed": (
        asked(state(Phase.SNAPSHOT, AtFile(0), waits="the round failed (2 of 4): no answer", attempt="me"), RUNS),
        Condition.WAITING,
        "attempt 4 (snapshot): the round failed (2 of 4): no answer",
    ),
    "starts": (asked(HALF, STARTS), Condition.STARVED, "waits for Spark to start"),
    "died": (
        asked(HALF, OK, replace(DEAD, instance=Instance("d", "t", "r", -1))),
        Condition.STUCK,
        "gives no sign of life; clear its task",
    ),
    "died, and was no task": (asked(HALF, OK, DEAD), Condition.STUCK, "no sign of life; give its command again"),
    "failed for good": (
        asked(HALF, WRONG),
        Condition.WAITING,
        "an operator: attempt 4 (snapshot) ended with KEY_NULL: 3",
    ),
    "failed, and is retried": (asked(HALF, LOST), Condition.WAITING, "Airflow tries again, unless its task or"),
    "failed, and has no try left": (
        asked(HALF, replace(LOST, last_try=True)),
        Condition.WAITING,
        "an operator: attempt 4 (snapshot) ended with APPLICATION_FAILED: the worker died",
    ),
    "never retried": (asked(HALF, replace(LOST, ended=NOW - NEXT_MS - 1)), Condition.STARVED, "Airflow tries again"),
    "between two tasks": (
        asked(state(Phase.CATCH_UP, handoff=V), OK),
        Condition.WAITING,
        "the verify task, which is due",
    ),
    "no next task": (
        asked(state(Phase.CATCH_UP, handoff=V, certificate=CERTIFICATE), replace(OK, ended=NOW - NEXT_MS - 1)),
        Condition.STARVED,
        "the finish task, which is due: it is queued (is its pool full?), its DAG is paused, or it or a task before",
    ),
    "nobody ever ran": (asked(HALF), Condition.STARVED, "the snapshot task"),
    "held": (
        asked(state(Phase.CONSUME_LOG), OK, commands=(order(Verb.HOLD),)),
        Condition.WAITING,
        "a release: the gate is on hold",
    ),
    "at the gate": (asked(state(Phase.CONSUME_LOG), replace(OK, ended=5)), Condition.WAITING, "the gate: the lag"),
    "behind the gate": (
        asked(state(Phase.CONSUME_LOG), replace(OK, ended=5)),
        Condition.WAITING,
        "if the gate is open, for the catch_up task: it is queued, or failed in Airflow before it began",
    ),
    "an epoch stops it": (
        asked(HALF, RUNS, trouble=SourceUnavailable("no answer")),
        Condition.WAITING,
        "an operator: [SOURCE_UNAVAILABLE] no answer",
    ),
    "a cancel is ordered": (
        asked(HALF, RUNS, commands=(order(Verb.CANCEL),)),
        Condition.WAITING,
        "the cancel application",
    ),
    "cancelled": (asked(state(Phase.CANCELLED), OK), Condition.WAITING, "a plan: the build was cancelled"),
    "finished": (asked(state(Phase.FINISHED, handoff=V), OK), Condition.DONE, "the hand-off is committed"),
    "followed": (
        asked(state(Phase.UPSTREAM, handoff=V), replace(RUNS, task="upstream")),
        Condition.WORKING,
        "upstream",
    ),
    "a newer attempt wins": (asked(HALF, RUNS, FENCED), Condition.WORKING, "attempt 4"),
    "a proof is no work on the build": (asked(HALF, DEAD, PROVES), Condition.STUCK, "attempt 4"),
    "a damaged file": (
        asked(HALF, OK, AttemptStatus.unreadable(5, DocumentDamaged("attempts/000000005.json: empty"))),
        Condition.WAITING,
        "attempt 5 (of an unknown task), of which a file is damaged: whether it runs is unknown",
    ),
    "an explanation is none": (asked(HALF, DEAD, replace(PROVES, task="explain")), Condition.STUCK, "attempt 4"),
    "the log grows": (
        asked(state(Phase.CONSUME_LOG, bound=Bound(9, 5, 3)), RUNS),
        Condition.WORKING,
        "the log grows as fast as it is applied",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_build_does_is_told_with_its_reason(name: str) -> None:
    found, condition, why = SITUATIONS[name]
    assert found.condition is condition and why in found.why, found


NEED_ATTENTION = {
    "died",
    "failed for good",
    "failed, and has no try left",
    "an epoch stops it",
    "died, and was no task",
    "a proof is no work on the build",
    "an explanation is none",
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_build_needs_attention_only_for_what_was_not_ordered_and_no_retry_can_mend(name: str) -> None:
    found = SITUATIONS[name][0]
    assert found.needs_attention is found.to_json()["needs_attention"] is (name in NEED_ATTENTION)
    assert in_words(found.to_json()).endswith(" (needs attention)") is found.needs_attention


PLANS = {
    "starts": (STARTS, Condition.STARVED, False),
    "runs": (RUNS, Condition.WORKING, False),
    "died": (DEAD, Condition.STUCK, True),
    "failed": (WRONG, Condition.WAITING, True),
    "failed, and is retried": (LOST, Condition.WAITING, False),
    "failed, and has no try left": (replace(LOST, last_try=True), Condition.WAITING, True),
    "never retried": (replace(LOST, ended=NOW - NEXT_MS - 1), Condition.STARVED, False),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_needs_attention_once_it_has_died_or_ended_for_good(name: str) -> None:
    tried, condition, needs = PLANS[name]
    found = health_of_plan(tried, NOW)
    assert (found.condition, found.needs_attention) == (condition, needs)


def test_who_paused_it_and_when() -> None:
    found = SITUATIONS["paused, and an attempt looks"][0]
    assert (found.by, found.since) == ("ann", 5)


def test_an_attempt_that_commits_nothing_is_stuck_unless_its_rounds_are_long_or_it_proves() -> None:
    begun = replace(RUNS, drawn=None, started=NOW - STUCK_MS - 1)
    assert asked(HALF, begun).condition is Condition.STUCK
    assert asked(HALF, replace(begun, started=NOW - STUCK_MS)).condition is Condition.WORKING
    assert asked(HALF, begun, longest_ms=lambda: STUCK_MS).condition is Condition.WORKING
    apart = replace(begun, drawn=NOW - 9_000, started=NOW - 2 * STUCK_MS)
    assert asked(HALF, apart).condition is Condition.WORKING, "its driver's clock is behind"
    proves = replace(begun, task="verify")
    assert asked(state(Phase.CATCH_UP, handoff=V), proves).condition is Condition.WORKING


def tried(drawn: int | None, seen: int | None, *, ended: bool = False) -> AttemptStatus:
    document = {"attempt": "me", "task": "snapshot", **({} if drawn is None else {"at": drawn})}
    started = {} if seen is None else {"at": seen}
    return AttemptStatus.told(1, document, started, {"code": "OK"} if ended else None, seen, NOW)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (tried(NOW, NOW, ended=True), Life.ENDED),
        (tried(None, NOW - SILENT_MS), Life.RUNNING),
        (tried(None, NOW - SILENT_MS - 1), Life.SILENT),
        (tried(NOW - STARTING_MS, None), Life.STARTING),
        (tried(NOW - STARTING_MS - 1, None), Life.SILENT),
        (tried(None, None), Life.UNKNOWN),
        # A clock that is ahead makes nobody dead, nor does one that is behind.
        (tried(NOW + 10**9, NOW + 10**9), Life.RUNNING),
        (tried(NOW, NOW - 10**9), Life.RUNNING),
        (tried(NOW - SILENT_MS - STARTING_MS - 1, NOW - 10**9), Life.SILENT),
    ],
)
def test_what_an_attempt_left_behind_says_whether_it_lives(one: AttemptStatus, expected: Life) -> None:
    assert one.life is expected
