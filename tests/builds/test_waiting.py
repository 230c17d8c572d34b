from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.builds.waiting import waits_for
from airflow_backfill.core.delta.epochs import lost
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.model.record import Pending
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Control, Verb, obey
from airflow_backfill.core.values.phase import Phase
from tests.core.states import CERTIFICATE, V, numbered, state, view


def asked(build: BuildState, *verbs: Verb, now: int = 0, source: Any = None, trouble: Any = None) -> list[str]:
    seen = source if source is not None or trouble is not None else view()
    return waits_for(build, obey(build.control, numbered(*verbs)), seen, trouble, now)


HALF = state(Phase.SNAPSHOT, Consumed(V), AtFile(1), AtFile(0))
RELEASE = "a release: the gate is on hold (table-backfill release TARGET)"
RESUME = "a resume: the build is paused (table-backfill resume TARGET)"
ANOTHER_RATE = "another rate: the rate is 0 (table-backfill throttle TARGET RATE)"
SITUATIONS: dict[str, tuple[BuildState, list[str]]] = {
    "half read": (HALF, []),
    "read": (state(Phase.SNAPSHOT, Consumed(V)), ["the consume_log task: the snapshot is read"]),
    "sealed": (state(Phase.CONSUME_LOG), []),
    "held": (state(Phase.CONSUME_LOG, control=Control(1, held=True)), [RELEASE]),
    "pinned": (state(Phase.CATCH_UP, handoff=9), []),
    "arrived": (state(Phase.CATCH_UP, handoff=V), ["the proof at epoch 7"]),
    "proven": (state(Phase.CATCH_UP, handoff=V, certificate=CERTIFICATE), ["the finish task: the copy is proven"]),
    "finished": (state(Phase.FINISHED, handoff=V), []),
    "upstream": (state(Phase.UPSTREAM, handoff=V), []),
    "cancelled": (state(Phase.CANCELLED), ["the plan task: the build was cancelled, and a new plan resumes it"]),
    "paused": (state(Phase.CONSUME_LOG, control=Control(1, paused=True)), [RESUME]),
    "rate 0": (state(Phase.CONSUME_LOG, control=Control(1, rate=0)), [ANOTHER_RATE]),
    "no bytes": (state(Phase.CONSUME_LOG, control=Control(1, byte_rate=0)), [ANOTHER_RATE]),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_build_waits_for(name: str) -> None:
    build, expected = SITUATIONS[name]
    assert asked(build) == expected


def test_a_hold_matters_at_the_gate_only() -> None:
    for phase in (Phase.CATCH_UP, Phase.FINISHED):
        assert asked(state(phase, control=Control(1, held=True), handoff=9)) == []


def test_commands_that_no_barrier_has_acknowledged_are_waited_for_and_counted_as_given() -> None:
    assert asked(HALF, Verb.THROTTLE, Verb.PAUSE) == [
        "the next barrier, which acknowledges commands up to 2",
        RESUME,
    ]
    assert asked(HALF, Verb.CANCEL)[0].startswith("the cancel application")


def test_the_throttle_says_when_the_next_round_may_begin() -> None:
    build = state(Phase.SNAPSHOT, control=Control(1, rate=5), due=70_000, pending=Pending(V, 0, 0, 8_000))
    assert asked(build, now=8_001) == ["the throttle: the next round may begin in 62 s"]
    assert asked(build, now=70_000) == []


def test_the_clock_of_a_driver_that_is_ahead_adds_no_hours_to_a_throttle() -> None:
    written = Pending(V, 0, 0, 60_000)
    build = state(Phase.SNAPSHOT, control=Control(1, rate=5), due=70_000, pending=written)
    assert asked(build, now=8_001) == ["the throttle: the next round may begin in 10 s"]


def test_a_rate_that_was_changed_since_holds_nothing_back() -> None:
    build = state(Phase.SNAPSHOT, control=Control(1, rate=5), due=70_000)
    lifted = waits_for(build, replace(build.control, number=2, rate=None), view(), None, 8_001)
    assert lifted == ["the next barrier, which acknowledges commands up to 2"]


def test_an_epoch_that_stops_the_build_is_told_before_it_is_reached() -> None:
    source = view(V + 5)
    source = replace(source, epochs=Backlog([*source.epochs[:3], lost(V + 4), *source.epochs[4:]]))
    (reason,) = asked(HALF, source=source)
    assert reason.startswith("an operator: [HISTORY_LOST] the build needs epoch 11")


def test_a_source_that_cannot_be_seen_is_told() -> None:
    assert asked(HALF, trouble=SourceUnavailable("no answer")) == ["an operator: [SOURCE_UNAVAILABLE] no answer"]
