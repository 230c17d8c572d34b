from __future__ import annotations

from itertools import product

import pytest

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.values.phase import TRANSITIONS, Event, Phase, after

AHEAD = [Phase.SNAPSHOT, Phase.CONSUME_LOG, Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM]


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, Event)))
def test_an_event_leads_where_the_table_says_or_nowhere(phase: Phase, event: Event) -> None:
    if event in TRANSITIONS[phase]:
        assert after(phase, event) is TRANSITIONS[phase][event]
    else:
        with pytest.raises(NotAllowedNow, match=phase.value) as raised:
            after(phase, event)
        assert raised.value.data == {"phase": phase.value, "event": event.value}


def test_every_phase_has_a_row_and_is_reached_and_every_event_happens() -> None:
    assert set(TRANSITIONS) == set(Phase)
    reached = {Phase.SNAPSHOT}
    for _ in Phase:
        reached |= {to for phase in reached for to in TRANSITIONS[phase].values()}
    assert reached == set(Phase)
    assert {event for events in TRANSITIONS.values() for event in events} == set(Event) - {Event.REWIND}


def test_only_a_resumed_or_recovered_build_goes_back() -> None:
    for phase, events in TRANSITIONS.items():
        for event, to in events.items():
            if event is Event.RESUME:
                assert (phase, to) == (Phase.CANCELLED, Phase.SNAPSHOT)
            elif event is Event.CANCEL:
                assert phase in AHEAD[:3]
            elif event is Event.RECOVER:
                assert to is Phase.CATCH_UP
            elif phase in AHEAD:
                assert AHEAD.index(to) - AHEAD.index(phase) in (0, 1)
            else:
                assert to is phase


def test_rows_move_only_where_the_phase_reads_them_and_lanes_change_in_the_snapshot() -> None:
    assert [p for p in Phase if Event.FILES in TRANSITIONS[p]] == [Phase.SNAPSHOT]
    assert [p for p in Phase if Event.EPOCHS in TRANSITIONS[p]] == AHEAD[1:]
    assert [p for p in Phase if Event.CLOSE in TRANSITIONS[p]] == [Phase.SNAPSHOT]


def test_a_finish_is_undone_by_a_recovery_only() -> None:
    for phase in (Phase.FINISHED, Phase.UPSTREAM):
        assert Event.CANCEL not in TRANSITIONS[phase]
        back = {event for event, to in TRANSITIONS[phase].items() if to not in (Phase.FINISHED, Phase.UPSTREAM)}
        assert back == {Event.RECOVER}


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[Phase.FINISHED][Event.CANCEL] = Phase.CANCELLED  # type: ignore[index]
    with pytest.raises(TypeError):
        TRANSITIONS[Phase.FINISHED] = {}  # type: ignore[index]
