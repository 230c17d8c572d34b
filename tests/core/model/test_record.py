from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.record import MAX_BYTES, Layout, Pending, Record, app_id, barrier_record, decode
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Command, Control, Verb, obey
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.document import encode
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.core.values.totals import Totals
from tests.core.documents import damaged, mangled, same
from tests.core.model.test_position import POSITIONS
from tests.core.values.test_cost import COSTS
from tests.core.values.test_totals import TOTALS

COUNTS = st.integers(0, 2**53)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
BOUNDS = st.tuples(COUNTS, COUNTS, COUNTS, st.none() | COUNTS).map(lambda n: Bound(max(n[:2]), min(n[:2]), n[2], n[3]))
CONTROLS = st.builds(Control, COUNTS, st.booleans(), st.none() | COUNTS, st.booleans(), st.booleans(), st.booleans())

FULL = Record(
    build="b1", plan="p1", layout=Layout(2, 3), lane=1, seq=4, generation=9, attempt="a9", prev=17,
    tails=(16, 12, -1), event=Event.EPOCHS, phase=Phase.CATCH_UP,
    positions=(Consumed(8), Consumed(8), AtFile(2)), base=Totals(snapshot_files=3),
    totals=Totals(log_epochs=2, log_rows=70), work=Totals(log_epochs=1),
    control=Control(number=5, paused=True, rate=70, held=True), due=1_234, epochs=EpochRange(8, 9),
    bound=Bound(9, 3, 1, 4), pending=Pending(11, 3, None, 1_000), handoff=10,
    certificate=Certificate(10, 15, 99, "d1", 16, 1_001, RowHash.TYPED), cost=Cost(2, 1, 7, 6, 5, 4, 3, 2),
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> Record:
    lanes = draw(st.integers(1, 5))
    event = draw(st.sampled_from(Event))
    epochs = st.tuples(COUNTS, COUNTS).map(lambda n: EpochRange(min(n), max(n)))
    return Record(
        build=draw(TEXTS), plan=draw(TEXTS), layout=Layout(draw(COUNTS), lanes),
        lane=draw(st.integers(0, lanes - 1)), seq=draw(st.integers(1, 2**53)), generation=draw(COUNTS),
        attempt=draw(TEXTS), prev=draw(COUNTS),
        tails=tuple(draw(st.lists(st.integers(-1, 2**53), min_size=lanes, max_size=lanes))), event=event,
        phase=draw(st.sampled_from(Phase)), positions=tuple(draw(st.lists(POSITIONS, max_size=6))),
        base=draw(TOTALS), totals=draw(TOTALS), work=draw(TOTALS), control=draw(CONTROLS), due=draw(COUNTS),
        epochs=draw(st.none() | epochs), bound=draw(st.none() | BOUNDS),
        pending=draw(st.none() | st.builds(Pending, COUNTS, COUNTS, st.none() | COUNTS, COUNTS)),
        handoff=draw(st.none() | COUNTS),
        certificate=draw(st.none() | st.builds(Certificate, COUNTS, COUNTS, COUNTS, TEXTS, COUNTS, COUNTS)),
        cost=draw(st.none() | COSTS),
        next_lanes=draw(st.integers(1, 9)) if event is Event.CLOSE else None,
        decided_by=draw(st.integers(0, 9) if event is Event.CLOSE else st.none() | st.integers(0, 9)),
    )  # fmt: skip


@given(records())
def test_a_record_survives_any_number_of_round_trips(record: Record) -> None:
    text = record.encode()
    for _ in range(4):
        read = decode(text)
        assert read == record and read.encode() == text


@given(records())
def test_a_record_is_small_plain_json(record: Record) -> None:
    document = json.loads(record.encode())
    assert document == record.to_json() and encode(document) == record.encode()


def test_a_thousand_finished_splits_take_a_few_bytes() -> None:
    few = replace(FULL, positions=(Consumed(8),) * 10)
    many = replace(FULL, positions=(Consumed(8),) * 1000)
    assert len(many.encode()) - len(few.encode()) == 2
    assert decode(many.encode()).positions == many.positions


def test_a_record_that_differs_in_one_place_is_refused_or_read_as_it_stands() -> None:
    """Every field dropped, added, retyped: RecordInvalid, or a record that says just what the text says."""
    refused = kept = 0
    for document in damaged(FULL.to_json()):
        try:
            record = decode(json.dumps(document))
        except RecordInvalid as error:
            refused += 1
            assert len(str(error)) < 1000
        else:
            kept += 1
            assert same(json.loads(record.encode()), _normal(document)), document
    assert refused > 1000
    assert kept > 50


def _normal(document: dict[str, object]) -> dict[str, object]:
    """The document without what a record leaves out when it is nothing."""
    found = {name: value for name, value in document.items() if value is not None}
    for name in ("base", "totals", "work"):
        found[name] = {field: n for field, n in found[name].items() if n}  # type: ignore[attr-defined]
    nothing = Control()
    found["control"] = {n: v for n, v in found["control"].items() if v != getattr(nothing, n)}  # type: ignore[attr-defined]
    return found


def test_a_text_that_is_cut_off_is_refused_wherever_it_ends() -> None:
    text = FULL.encode()
    for end in range(len(text)):
        with pytest.raises(RecordInvalid):
            decode(text[:end])


@pytest.mark.slow
def test_a_mangled_text_gives_a_record_or_record_invalid() -> None:
    rng = random.Random(20)
    refused = 0
    for _ in range(20_000):
        text = mangled(FULL.encode(), rng)
        try:
            again = decode(text)
        except RecordInvalid:
            refused += 1
        else:
            assert decode(again.encode()) == again
    assert refused > 10_000


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "null", "[]", '"x"', "{}", "\x80\x04N.", '{"airflow_backfill":1}', "NaN", "[" * 100_000,
     '{"airflow_backfill":' * 50_000, "9" * 5_000, '{"airflow_backfill":1,"seq":' + "9" * 5_000 + "}"],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(RecordInvalid) as raised:
        decode(text)
    assert len(str(raised.value)) < 1000


def test_a_record_of_a_newer_version_is_refused_by_its_number() -> None:
    for newer in (0, 3, 99, "2", None, True, 1.0, 2.0):
        document = {**FULL.to_json(), "airflow_backfill": newer}
        with pytest.raises(RecordInvalid, match="format"):
            decode(json.dumps(document))


def test_a_record_that_is_too_large_is_not_even_parsed() -> None:
    with pytest.raises(RecordInvalid, match="too large"):
        decode(" " * (MAX_BYTES + 1))


def test_a_text_that_stands_for_too_many_splits_is_refused() -> None:
    for runs in ([{"splits": 10**12, "files": 0}], [{"splits": MAX_BYTES, "files": 0}, {"splits": 1, "files": 0}]):
        with pytest.raises(RecordInvalid, match="too many splits"):
            decode(json.dumps({**FULL.to_json(), "positions": runs}))


@pytest.mark.parametrize(
    "changes",
    [{"lane": 3}, {"seq": 0}, {"tails": [1, 2]}, {"tails": [1, 2, -2]}, {"next_lanes": 2},
     {"layout": [2]}, {"layout": {"number": 2}},
     {"event": "close"}, {"event": "close", "next_lanes": 0},
     {"event": "close", "next_lanes": 1}, {"next_lanes": 1, "decided_by": 1}, {"epochs": {"start": 9, "stop": 8}},
     {"bound": {"start": 1, "value": 2, "stalled": 0, "least": None}}],
    ids=repr,
)  # fmt: skip
def test_fields_that_do_not_fit_together_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(RecordInvalid):
        decode(json.dumps({**FULL.to_json(), **changes}))


def test_every_lane_has_a_transaction_id_of_its_own() -> None:
    ids = {app_id(build, layout, lane) for build in ("b", "c") for layout in (1, 2) for lane in (0, 1, 2)}
    assert len(ids) == 12
    assert FULL.app_id == "b1/2/1"


def commit(record: Record | None = FULL, txns: dict[str, int] | None = None, text: str | None = None) -> Commit:
    text = record.encode() if record is not None else text
    return Commit(18, txns={"b1/2/1": 4} if txns is None else txns, user_metadata=text)


def test_a_barrier_holds_both_the_record_and_its_transaction() -> None:
    assert barrier_record(commit()) == FULL
    assert barrier_record(commit(txns={"other": 1, "b1/2/1": 4})) == FULL


@pytest.mark.parametrize("txns", [{}, {"b1/2/1": 3}, {"b1/2/1": 5}, {"b1/2/0": 4}, {"b1/1/1": 4}, {"b2/2/1": 4}])
def test_a_record_that_another_commit_carries_proves_nothing(txns: dict[str, int]) -> None:
    assert barrier_record(commit(txns=txns)) is None


@pytest.mark.parametrize("text", [None, "", "hello", '{"airflow_backfill_plan":1}', '{"other":1}'])
def test_other_texts_are_not_looked_at(text: str | None) -> None:
    assert barrier_record(commit(None, text=text)) is None


def test_a_barrier_whose_record_is_damaged_is_an_error_and_not_a_foreign_commit() -> None:
    damaged = commit(None, text=FULL.encode()[:-5])
    with pytest.raises(
        RecordInvalid, match=f"version {damaged.version} of the target: the record is not JSON"
    ) as raised:
        barrier_record(damaged)
    assert raised.value.data["version"] == damaged.version


def test_pause_is_a_state_of_its_own_in_the_record() -> None:
    paused = obey(Control(), [(1, Command(Verb.PAUSE))])
    stopped = obey(Control(), [(1, Command(Verb.THROTTLE, 0))])
    assert replace(FULL, control=paused).to_json()["control"] == {"number": 1, "paused": True}
    assert replace(FULL, control=stopped).to_json()["control"] == {"number": 1, "rate": 0}


def test_a_certificate_counts_what_was_passed_over_and_one_of_before_counts_nothing() -> None:
    assert FULL.certificate is not None and "lost" not in FULL.to_json()["certificate"]
    counted = replace(FULL, certificate=replace(FULL.certificate, lost=3))
    assert decode(counted.encode()) == counted
