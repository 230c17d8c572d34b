"""What is stored of a split comes back, or is refused."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.kafka import state as states
from airflow_backfill.core.kafka.offsets import MAX, Batch, Offsets
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished, State
from airflow_backfill.core.values.document import encode

NEW = Split(0)
BEGUN = Split(3, Backfilling(99), 300, read=90, written=90, scanned=199, credit=300, landed=300, end=5001)
STOPPED = Split(3, CatchingUp(300), 300, read=120, written=91, scanned=300, landed=250, end=301, credit=250, cut=300)
DONE = replace(STOPPED, state=Finished(), landed=444)
SHAPES = [
    NEW,
    replace(NEW, state=Backfilling(0), read=1, written=1, scanned=0),
    replace(NEW, target=9, credit=9, landed=9),
    BEGUN,
    replace(BEGUN, oldest=7, expires=MAX),
    STOPPED,
    DONE,
    Split(1, Finished()),
    Split(1, CatchingUp(MAX), scanned=MAX, cut=MAX, end=MAX),
]
STATES: list[State] = [Backfilling(), Backfilling(0), Backfilling(MAX), CatchingUp(0), CatchingUp(7), Finished()]


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """A document whose checksum is right, whatever else is not."""
    rest = {name: value for name, value in document.items() if name != "sum"}
    return {**rest, "sum": zlib.crc32(encode(rest).encode())}


@pytest.mark.parametrize("split", SHAPES, ids=str)
def test_a_split_comes_back_a_hundred_times(split: Split) -> None:
    text = encode(split.to_json())
    for _ in range(100):
        read = Split.from_json(json.loads(text))
        assert read == split and type(read.state) is type(split.state)
        assert encode(read.to_json()) == text


@pytest.mark.parametrize(
    ("split", "held"),
    [(NEW, -1), (BEGUN, 199), (STOPPED, 300), (replace(DONE, landed=250), 300), (DONE, 444),
     (Split(1, Finished()), -1)],
)  # fmt: skip
def test_what_landed_is_in_the_target_once_the_history_is_finished(split: Split, held: int) -> None:
    assert split.held == held


def test_the_json_can_be_read_by_people() -> None:
    assert BEGUN.to_json() == {
        "partition": 3, "state": ["backfilling", 99], "target": 300, "read": 90, "written": 90, "scanned": 199,
        "credit": 300, "landed": 300, "end": 5001, "oldest": None, "cut": None, "sum": 1590438693,
    }  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_state_comes_back(state: State) -> None:
    read = states.from_json(json.loads(json.dumps(states.to_json(state))))
    assert read == state and type(read) is type(state)


def test_nothing_backfilled_is_not_offset_zero() -> None:
    assert [states.to_json(Backfilling(None)), states.to_json(Backfilling(0))] == [
        ["backfilling", None],
        ["backfilling", 0],
    ]


BAD = ["abc", "9", -1, 1.5, 9.0, 2**63, True, False, [], {}, [9]]


@pytest.mark.parametrize(
    "value",
    [
        None, 7, "finished", [], ["finished", None], ["finished", 7], ["backfilling"], ["catching_up"], ["done"],
        ["catching_up", None], ["backfilling", 1, 2], [None, 1], ["Backfilling", 1], {"backfilling": 1},
        *(["backfilling", bad] for bad in BAD), *(["catching_up", bad] for bad in BAD),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_state_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a state"):
        states.from_json(value)


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("name", [name for name in BEGUN.to_json() if name != "state"])
def test_what_is_no_number_is_refused(name: str, bad: object) -> None:
    document = signed({**DONE.to_json(), name: bad})
    if name == "sum":
        document["sum"] = bad
    if (name, bad) == ("scanned", -1):
        document = signed({**document, "cut": None, "credit": None, "read": 1})
    with pytest.raises(RecordInvalid, match="not a split"):
        Split.from_json(document)


def test_a_checksum_is_an_integer_and_right() -> None:
    document = BEGUN.to_json()
    for bad in (float(document["sum"]), document["sum"] + 1, str(document["sum"])):
        with pytest.raises(RecordInvalid, match="checksum"):
            Split.from_json({**document, "sum": bad})


def test_nothing_is_before_the_offset_before_the_first() -> None:
    with pytest.raises(RecordInvalid, match="not a valid number"):
        Split.from_json(signed({**NEW.to_json(), "scanned": -2}))


@pytest.mark.parametrize("name", BEGUN.to_json())
def test_a_field_that_is_missing_is_refused(name: str) -> None:
    with pytest.raises(RecordInvalid, match="missing"):
        Split.from_json({key: value for key, value in BEGUN.to_json().items() if key != name})


@pytest.mark.parametrize("value", [None, [], 3, "x", {}, {**BEGUN.to_json(), "more": 1}], ids=repr)
def test_what_is_no_split_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a split"):
        Split.from_json(value)


@pytest.mark.parametrize(
    "split",
    [replace(BEGUN, target=99, credit=None), replace(BEGUN, target=98, credit=None),
     replace(BEGUN, target=None), replace(BEGUN, target=299), replace(BEGUN, scanned=98),
     replace(BEGUN, read=91), replace(BEGUN, cut=99), replace(BEGUN, landed=299),
     replace(BEGUN, landed=None), replace(BEGUN, read=201, written=201),
     replace(NEW, read=1, written=1, scanned=5), replace(NEW, state=Finished(), credit=4, landed=4),
     replace(STOPPED, cut=299), replace(STOPPED, cut=None, credit=None), replace(STOPPED, scanned=299),
     replace(STOPPED, written=121), replace(STOPPED, credit=301, landed=301), replace(DONE, cut=249),
     replace(DONE, scanned=299)],
    ids=str,
)  # fmt: skip
def test_what_no_history_leads_to_is_refused(split: Split) -> None:
    with pytest.raises(RecordInvalid, match="contradict"):
        Split.from_json(split.to_json())


@pytest.mark.parametrize("split", [BEGUN, STOPPED, NEW], ids=str)
def test_a_corrupted_byte_is_refused_or_changes_nothing(split: Split) -> None:
    text = encode(split.to_json()).encode()
    refused = 0
    for place, byte in enumerate(text):
        for other in range(256):
            if other == byte:
                continue
            try:
                read = Split.from_json(json.loads(text[:place] + bytes([other]) + text[place + 1 :]))
            except (RecordInvalid, ValueError):
                refused += 1
            else:
                assert read == split
    assert refused > 200 * len(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.sampled_from(SHAPES), st.sampled_from(sorted(NEW.to_json())), JSON)
def test_whatever_stands_in_a_field_it_comes_back_or_is_refused(split: Split, name: str, value: Any) -> None:
    document = {**split.to_json(), name: value}
    try:
        read = Split.from_json(document if name == "sum" else signed(document))
    except RecordInvalid as refused:
        assert json.dumps(refused.to_json())
    else:
        assert encode(read.to_json()) == encode(signed(document))


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(Offsets, (5, 5)), (Offsets, (5, 4)), (Offsets, (-1, 4)),
     (Batch, (5, 4, 1)), (Batch, (5, 6, 0)), (Batch, (-1, 6, 2)), (Log, (5, 4)), (Log, (-1, 4))],
)  # fmt: skip
def test_what_is_no_range_is_an_error(kind: type, numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not a"):
        kind(*numbers)


def test_a_range_is_half_open() -> None:
    found = Offsets(5, 8)
    assert (len(found), found.last) == (3, 7) and [n for n in range(10) if n in found] == [5, 6, 7]
