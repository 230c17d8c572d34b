from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.core.values.control import Command, Control, Verb, obey, resumed
from airflow_backfill.core.values.signature import UNSIGNED, Signature

RATES = st.none() | st.integers(0, 10**9)
COMMANDS = st.one_of(
    st.sampled_from([Command(v) for v in Verb]),
    st.builds(Command, st.just(Verb.THROTTLE), RATES),
    st.builds(Command, st.just(Verb.THROTTLE), st.integers(0, 9), until=st.integers(0, 10**13)),
    st.builds(Command, st.just(Verb.CANCEL), drop=st.booleans()),
)
SIGNED = st.builds(
    Signature,
    *(st.none() | st.text("ab é,", min_size=1).filter(str.strip) for _ in range(2)),
    st.none() | st.integers(0),
)
Orders = list[tuple[int, Command]]
LISTS = st.lists(COMMANDS, max_size=12).map(lambda commands: list(enumerate(commands, start=1)))


@given(COMMANDS)
def test_a_command_survives_its_json(command: Command) -> None:
    assert Command.from_json(json.loads(json.dumps(command.to_json()))) == command


@given(COMMANDS, SIGNED)
def test_a_signature_survives_its_json_and_changes_no_command(command: Command, signed: Signature) -> None:
    found = Command.from_json(json.loads(json.dumps(replace(command, signed=signed).to_json())))
    assert (found, found.signed) == (command, signed)


def test_a_document_of_version_0_1_is_read() -> None:
    old = {"verb": "throttle", "rate": 5, "drop": False, "byte_rate": None}
    assert Command.from_json(old) == Command(Verb.THROTTLE, 5) and Command.from_json(old).signed == UNSIGNED


@pytest.mark.parametrize("said", ["", " ", "two\nlines", "x" * 1001, "\x1b[31m"])
def test_what_is_no_line_of_text_signs_nothing(said: str) -> None:
    for name in ("by", "why", "via"):
        with pytest.raises(InvalidSpec, match=name):
            Signature(**{name: said})


def test_a_throttle_is_in_force_until_its_end_and_then_there_is_no_limit() -> None:
    control = obey(Control(), [(1, Command(Verb.THROTTLE, 0, byte_rate=7, until=1_000)), (2, Command(Verb.HOLD))])
    assert control.at(999) == control and control.stopped
    assert control.at(1_000) == control.at(9_999) == Control(2, held=True)
    again = obey(control, [(3, Command(Verb.THROTTLE, 5))])
    assert again.at(9_999) == again, "a later throttle has its own end, or none"


def test_what_a_barrier_has_lifted_stays_lifted_whatever_the_clock_says() -> None:
    commands = [(1, Command(Verb.THROTTLE, 5, until=1_000))]
    lifted = obey(Control(), commands).at(1_000)
    assert obey(lifted, commands).at(0) == lifted == Control(1)


@given(LISTS)
def test_a_control_state_survives_its_json(commands: Orders) -> None:
    control = obey(Control(), commands)
    assert Control.from_json(json.loads(json.dumps(control.to_json()))) == control


@given(LISTS)
def test_each_switch_stands_as_its_last_command_left_it(commands: Orders) -> None:
    control = obey(Control(), commands)

    def last(*verbs: Verb) -> Command | None:
        return next((c for _, c in reversed(commands) if c.verb in verbs), None)

    pause, throttle = last(Verb.PAUSE, Verb.RESUME), last(Verb.THROTTLE)
    hold, cancel = last(Verb.HOLD, Verb.RELEASE), last(Verb.CANCEL)
    assert control.number == len(commands)
    assert control.paused == (pause is not None and pause.verb is Verb.PAUSE)
    assert control.held == (hold is not None and hold.verb is Verb.HOLD)
    assert control.rate == (throttle.rate if throttle is not None else None)
    assert control.cancelled == (cancel is not None)
    assert control.drop == (cancel is not None and cancel.drop)
    assert control.skips == (last(Verb.SKIP) is not None)
    assert control.dead_letters == (last(Verb.DEAD_LETTER) is not None)


@given(LISTS, st.data())
def test_commands_have_the_same_effect_at_once_or_in_pieces(commands: Orders, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(commands)))
    known = obey(Control(), commands[:cut])
    assert obey(known, commands[cut:]) == obey(known, commands) == obey(Control(), commands)
    assert obey(obey(known, commands), commands) == obey(Control(), commands)


def test_what_a_barrier_has_acknowledged_is_not_obeyed_again() -> None:
    acknowledged = Control(number=2, paused=False)
    assert obey(acknowledged, [(1, Command(Verb.PAUSE)), (2, Command(Verb.HOLD))]) == acknowledged


def test_pause_and_a_rate_of_0_both_stop_and_are_two_switches() -> None:
    both = obey(Control(), [(1, Command(Verb.PAUSE)), (2, Command(Verb.THROTTLE, 0))])
    assert both.stopped and obey(both, [(3, Command(Verb.RESUME))]).stopped
    assert obey(both, [(3, Command(Verb.THROTTLE, 5))]).stopped
    assert not obey(both, [(3, Command(Verb.RESUME)), (4, Command(Verb.THROTTLE, 5))]).stopped
    assert not obey(Control(), [(1, Command(Verb.THROTTLE, 1))]).stopped
    assert not Control().stopped


def test_no_command_but_resuming_the_build_lifts_a_cancel() -> None:
    cancelled = obey(Control(), [(1, Command(Verb.CANCEL))])
    for number, verb in enumerate(Verb, start=2):
        cancelled = obey(cancelled, [(number, Command(verb))])
        assert cancelled.cancelled


def test_resuming_the_build_lifts_the_cancels_that_it_was_ordered_after() -> None:
    commands = [(1, Command(Verb.CANCEL, drop=True)), (2, Command(Verb.PAUSE)), (3, Command(Verb.CANCEL))]
    assert resumed(Control(), commands, 2) == Control(3, paused=True, cancelled=True)
    assert resumed(Control(), commands, 3) == Control(3, paused=True)
    assert resumed(Control(1, cancelled=True, drop=True), commands[:2], 2) == Control(2, paused=True)
    assert resumed(Control(3, cancelled=True), commands, 2).cancelled, "acknowledged, and ordered later"


@pytest.mark.parametrize("verb", Verb)
def test_a_rate_belongs_to_throttle_and_dropping_to_cancel(verb: Verb) -> None:
    for name, value, owner in (
        ("rate", 1, Verb.THROTTLE),
        ("byte_rate", 1, Verb.THROTTLE),
        ("drop", True, Verb.CANCEL),
    ):
        if verb is not owner:
            with pytest.raises(InvalidSpec, match=name):
                Command(verb, **{name: value})
    for name in ("rate", "byte_rate"):
        with pytest.raises(InvalidSpec, match="-1" if verb is Verb.THROTTLE else name):
            Command(verb, **{name: -1})


COMMAND = {"verb": "pause", "rate": None, "drop": False, "byte_rate": None}


@pytest.mark.parametrize(
    "value",
    [None, [], "pause", {}, {"verb": "pause"}, *({**COMMAND, **damage} for damage in (
        {"verb": "stop"}, {"drop": 0}, {"more": 1}, {"rate": 3}, {"byte_rate": 3},
        {"verb": "throttle", "rate": "5"}, {"verb": "throttle", "rate": True}, {"verb": "throttle", "rate": 1.5},
        {"verb": "throttle", "rate": -1}, {"verb": "throttle", "byte_rate": True}, {"until": 5}, {"until": "5"},
        {"verb": "throttle", "until": 5}, {"verb": "throttle", "rate": 5, "until": -1}, {"by": 5}, {"why": None},
        {"at": -1}, {"at": "now"}, {"at": True}, {"by": ""},
    ))],
    ids=repr,
)  # fmt: skip
def test_what_is_no_command_is_refused(value: object) -> None:
    assert Command.from_json(COMMAND) == Command(Verb.PAUSE)
    with pytest.raises(RecordInvalid, match=r"not a command|does not know: more"):
        Command.from_json(value)


@pytest.mark.parametrize(
    "value",
    [None, [], 1, {"more": 1}, {"number": True}, {"number": "1"}, {"number": -1}, {"paused": 1}, {"rate": -1},
     {"rate": True}, {"rate": 1.0}, {"byte_rate": "1"}, {"held": None}, {"cancelled": "yes"}, {"drop": 0}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_control_state_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a control state"):
        Control.from_json(value)
