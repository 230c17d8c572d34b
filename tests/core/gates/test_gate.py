from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.delta.epochs import lost
from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.gates.gate import Broken, Conditions, Ready, Verdict, Waiting, decide
from airflow_backfill.core.gates.max_lag import MaxLag, within
from airflow_backfill.core.model.record import Pending
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Control, Verb
from airflow_backfill.core.values.phase import Phase
from tests.core.states import V, numbered, planned, state, view

NO_LAG = MaxLag(epochs=0)


def ask(build: BuildState, head: int = V, *verbs: Verb, **conditions: Any) -> Verdict:
    asked = Conditions(**{"max_lag": NO_LAG, **conditions})
    return decide(build, view(head, build.reached), numbered(*verbs), asked, now=0)


BOOLS = (False, True)


@pytest.mark.parametrize("phase", Phase)
def test_the_gate_opens_exactly_when_everything_has_agreed(phase: Phase) -> None:
    """Every combination: what is pending, on hold (said or acknowledged), cancelled, window, approval."""
    for pending, hold, held, cancel, window, approved in product((0, 2, 3), *[BOOLS] * 5):
        build = state(phase, Consumed(V), control=Control(held=held))
        verbs = [verb for verb, given_ in ((Verb.HOLD, hold), (Verb.CANCEL, cancel)) if given_]
        verdict = ask(build, V + pending, *verbs, max_lag=MaxLag(epochs=2), window_open=window, approved=approved)
        if cancel or phase is Phase.CANCELLED:
            assert isinstance(verdict, Broken) and verdict.error.code == "CANCELLED"
        elif phase in (Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM):
            assert verdict == Ready(V)
        elif phase is Phase.SNAPSHOT:
            assert verdict == Waiting(("the snapshot is not sealed",), lag=False)
        elif pending <= 2 and not (hold or held) and window and approved:
            assert verdict == Ready(V)
        else:
            assert isinstance(verdict, Waiting) and verdict.lag == (pending > 2)
            assert len(verdict.reasons) == (pending > 2) + (hold or held) + (not window) + (not approved)


def test_an_epoch_that_stops_the_build_closes_the_gate_for_good_however_much_may_be_pending() -> None:
    build = state(Phase.CONSUME_LOG)
    source = view(V + 2)
    source = replace(source, epochs=Backlog([source.epochs[0], lost(V + 2)]))
    verdict = decide(build, source, (), Conditions(MaxLag(epochs=9)), now=0)
    assert isinstance(verdict, Broken) and verdict.error.code == "HISTORY_LOST"


def test_each_reason_is_said_in_words() -> None:
    verdict = ask(state(Phase.CONSUME_LOG), V + 4, Verb.HOLD, window_open=False, approved=False)
    said = "4 epochs are pending after epoch 7", "the build is on hold", "the time window is closed"
    assert verdict == Waiting((*said, "the hand-off is not approved yet"), lag=True)


def test_before_the_first_round_the_gate_waits() -> None:
    assert ask(planned()) == Waiting(("the snapshot is not sealed",), lag=False)


@pytest.mark.parametrize("positions", [(Consumed(V), AtFile(1), AtFile(0)), (AtFile(1), Consumed(V), Consumed(V))])
def test_a_split_that_is_still_read_keeps_the_gate_closed(positions: Any) -> None:
    assert isinstance(ask(state(Phase.SNAPSHOT, *positions)), Waiting)


def test_the_number_of_pending_epochs_in_the_record_opens_nothing() -> None:
    """Only the committed epoch does: the last report may say 0 while its round has not landed."""
    build = state(Phase.CONSUME_LOG, pending=Pending(head=9, epochs=0, rows=0, at=0))
    assert isinstance(ask(build, head=9), Waiting)


@pytest.mark.parametrize("max_lag", [MaxLag(epochs=0), MaxLag(epochs=5), MaxLag(age=10**9)], ids=str)
def test_an_epoch_that_is_applied_in_part_has_to_be_finished_first(max_lag: MaxLag) -> None:
    build = state(Phase.CONSUME_LOG, InEpoch(8, 1, 3))
    verdict = ask(build, head=8, max_lag=max_lag)
    assert isinstance(verdict, Waiting) and verdict.lag
    assert any("epoch 8" in reason and "1 of 3" in reason for reason in verdict.reasons)
    assert ask(state(Phase.CONSUME_LOG, Consumed(8)), head=8, max_lag=max_lag) == Ready(8)


@pytest.mark.parametrize("verbs", [[Verb.HOLD, Verb.RELEASE], [Verb.PAUSE], [Verb.RESUME], [Verb.RELEASE]], ids=str)
def test_a_release_lifts_a_hold_and_other_commands_are_none_of_the_gates_business(verbs: list[Verb]) -> None:
    assert isinstance(ask(state(Phase.CONSUME_LOG), V, Verb.HOLD), Waiting)
    assert ask(state(Phase.CONSUME_LOG), V, *verbs) == Ready(V)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (view(9, table_id="source-2"), "SOURCE_REPLACED"),
        (view(V - 1, V - 1), "SOURCE_REPLACED"),
        (replace(view(9), epochs=[lost(8), *view(9).epochs[1:]]), "HISTORY_LOST"),
    ],
    ids=["another table", "went backwards", "next epoch gone"],
)
def test_a_source_that_cannot_be_followed_breaks_the_gate(source: Any, code: str) -> None:
    verdict = decide(state(Phase.CONSUME_LOG), source, (), Conditions(MaxLag(epochs=100)), now=0)
    assert isinstance(verdict, Broken) and verdict.error.code == code


def test_after_the_pin_nothing_closes_the_gate_again_but_a_cancel() -> None:
    for phase in (Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM):
        assert ask(state(phase), V + 50, Verb.HOLD, window_open=False, approved=False) == Ready(V)


# --- how much is pending ---


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_bound_of_epochs_counts_epochs(pending: int, most: int) -> None:
    assert within(MaxLag(epochs=most), state(Phase.CONSUME_LOG), view(V + pending), now=10**12) == (pending <= most)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_a_bound_of_time_looks_at_the_oldest_pending_epoch(at: int, now: int, most: int) -> None:
    source = view(V + 3, at=at)
    source = replace(source, epochs=[source.epochs[0], *(replace(e, at=-(10**9)) for e in source.epochs[1:])])
    assert within(MaxLag(age=most), state(Phase.CONSUME_LOG), source, now) == (now - at <= most)


def test_nothing_pending_is_within_any_bound_and_before_the_seal_nothing_is() -> None:
    for max_lag in (NO_LAG, MaxLag(age=0)):
        assert within(max_lag, state(Phase.CONSUME_LOG), view(), now=10**12)
    for max_lag in (MaxLag(epochs=10**9), MaxLag(age=10**12)):
        assert not within(max_lag, state(Phase.SNAPSHOT), view(), now=0)


@pytest.mark.parametrize(
    "fields",
    [{}, {"epochs": 1, "age": 1}, {"epochs": -1}, {"age": -1}, {"epochs": True}, {"epochs": 1.5}, {"age": "5m"}],
    ids=repr,
)
def test_a_bound_is_one_number(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="max_lag"):
        MaxLag(**fields)
