from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.plan import Plan, SourceFacts, app_id, build_id
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.way_out import way_out
from airflow_backfill.core.splits.files import FileSplits
from tests.core.documents import damaged, same
from tests.core.model_target import SCHEMA

SPEC = BackfillSpec.parse(
    {"name": "orders", "source": "/lake/orders", "target": "s3://marts/orders", "key": ["id", "part"]}
    | {"select": ["id", "part", "amount * 2 AS amount"], "where": "amount > 0"}
)
PLAN = Plan(
    build="b1", spec=SPEC, target_id="t1", target_schema_json=SCHEMA, target_version=3,
    source=SourceFacts("s1", 7, SCHEMA, ("part",), columns=("id", "name")),
    splits=FileSplits((0, 2, 5), 5_000, 90, "d1", (30, 60)), lanes=2, settings={"spark.sql.session.timeZone": "UTC"},
    made=("s3://marts/orders",),
)  # fmt: skip
SIZES = st.lists(st.integers(0, 10**9), max_size=60)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COUNTS = st.integers(0, 2**53)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    sizes = draw(SIZES)
    borders = FileSplits.cut(sizes, draw(st.integers(1, 20)))
    counted = draw(st.none() | st.lists(COUNTS, min_size=len(borders) - 1, max_size=len(borders) - 1).map(tuple))
    rows = draw(st.none() | COUNTS) if counted is None else sum(counted)
    return Plan(
        build=draw(TEXTS), spec=PLAN.spec, target_id=draw(TEXTS), target_schema_json=draw(TEXTS),
        target_version=draw(COUNTS),
        source=SourceFacts(draw(TEXTS), draw(COUNTS), draw(TEXTS), tuple(draw(st.lists(TEXTS, max_size=3)))),
        splits=FileSplits(borders, sum(sizes), rows, draw(TEXTS), counted),
        lanes=draw(st.integers(1, 9)), settings=draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
        made=tuple(draw(st.lists(TEXTS, max_size=2))),
    )  # fmt: skip


@given(plans())
def test_a_plan_survives_any_number_of_round_trips(plan: Plan) -> None:
    text = plan.encode()
    for _ in range(4):
        read = Plan.from_json(json.loads(text))
        assert read == plan and read.encode() == text
        assert read.fingerprint == plan.fingerprint


def test_whatever_changes_in_a_plan_changes_its_fingerprint() -> None:
    spec = replace(PLAN.spec, where="amount > 1")
    others = [
        replace(PLAN, build="b2"), replace(PLAN, spec=spec), replace(PLAN, target_id="t2"),
        replace(PLAN, target_schema_json="{}"), replace(PLAN, target_version=4),
        replace(PLAN, source=replace(PLAN.source, epoch=8)),
        replace(PLAN, source=replace(PLAN.source, table_id="s2")),
        replace(PLAN, source=replace(PLAN.source, columns=("id",))),
        replace(PLAN, splits=replace(PLAN.splits, borders=(0, 3, 5))),
        replace(PLAN, splits=replace(PLAN.splits, digest="d2")), replace(PLAN, lanes=1),
        replace(PLAN, splits=replace(PLAN.splits, split_rows=(31, 59))),
        replace(PLAN, splits=replace(PLAN.splits, split_rows=None)),
        replace(PLAN, settings={}), replace(PLAN, made=()),
        *(replace(PLAN, spec=replace(PLAN.spec, functions={name: to})) for name in ("f", "g") for to in ("1", "2")),
    ]  # fmt: skip
    assert len({plan.fingerprint for plan in [PLAN, *others]}) == 1 + len(others)


def test_a_plan_that_differs_in_one_place_is_refused_or_read_as_it_stands() -> None:
    refused = kept = 0
    for document in damaged(PLAN.to_json()):
        try:
            plan = Plan.from_json(document)
        except RecordInvalid as error:
            refused += 1
            assert len(str(error)) < 2000
        else:
            kept += 1
            assert same(plan.to_json(), document), document
            assert plan.encode()
    assert refused > 500
    assert kept > 20


@pytest.mark.parametrize("value", [None, [], 1, "x", {}, {"airflow_backfill": 1}], ids=repr)
def test_what_is_no_plan_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a plan"):
        Plan.from_json(value)


@pytest.mark.parametrize("newer", [2, "1", None, True, 1.0])
def test_a_plan_of_a_newer_version_is_refused_by_its_number(newer: object) -> None:
    with pytest.raises(RecordInvalid, match="format"):
        Plan.from_json({**PLAN.to_json(), "airflow_backfill_plan": newer})


def test_a_plan_with_fields_of_a_newer_version_is_not_just_called_damaged() -> None:
    document = PLAN.to_json()
    for newer in ({**document, "x": 1}, {**document, "source": {**document["source"], "x": 1}}):
        with pytest.raises(RecordInvalid, match="newer version") as raised:
            Plan.from_json(newer)
        assert "use that version" in way_out(raised.value.code)


@pytest.mark.parametrize("borders", [[], [0], [1, 2], [0, 2, 2], [0, 3, 2], [0, 0, 1], [0, True], [0, "1"], [0, -1]])
def test_borders_that_are_no_splits_are_refused(borders: list[object]) -> None:
    document = PLAN.to_json()
    document["splits"]["borders"] = borders
    with pytest.raises(RecordInvalid, match="damaged"):
        Plan.from_json(document)


@pytest.mark.parametrize("rows", [[], [90], [30, 60, 0], [30, 61], [91, -1], [30, 60.0], [89, True], "ab", 90, None])
def test_rows_that_are_not_those_of_the_splits_are_refused(rows: object) -> None:
    document = PLAN.to_json()
    document["splits"]["split_rows"] = rows
    with pytest.raises(RecordInvalid, match="damaged"):
        Plan.from_json(document)


def test_rows_of_splits_are_refused_where_those_of_the_source_are_unknown() -> None:
    document = PLAN.to_json()
    document["splits"]["rows"] = None
    with pytest.raises(RecordInvalid, match="damaged"):
        Plan.from_json(document)


def test_rows_of_splits_that_are_unknown_are_not_in_the_document() -> None:
    assert "split_rows" not in replace(PLAN.splits, split_rows=None).to_json()


def test_an_empty_snapshot_is_one_empty_split() -> None:
    splits = FileSplits(FileSplits.cut([], 8), 0, 0, "d")
    assert (len(splits), splits.files, splits.size(0)) == (1, 0, 0)
    plan = replace(PLAN, splits=splits)
    assert Plan.from_json(plan.to_json()) == plan


@given(SIZES, st.integers(1, 80))
def test_a_cut_covers_all_files_in_order_without_an_empty_run(sizes: list[int], splits: int) -> None:
    borders = FileSplits.cut(sizes, splits)
    assert borders[0] == 0 and borders[-1] == len(sizes)
    assert 1 <= len(borders) - 1 <= splits
    if sizes:
        assert all(a < b for a, b in pairwise(borders))


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60), st.integers(1, 80))
def test_a_cut_is_even_as_far_as_whole_files_can_be(sizes: list[int], splits: int) -> None:
    """No run holds more than its share and the largest file; every share is there if there are files enough."""
    borders = FileSplits.cut(sizes, splits)
    runs = [sum(sizes[a:b]) for a, b in pairwise(borders)]
    assert max(runs) <= sum(sizes) / splits + max(sizes)


@given(st.integers(1, 10**6), st.integers(1, 50), st.integers(1, 20))
def test_equal_files_are_dealt_out_evenly(size: int, per_split: int, splits: int) -> None:
    borders = FileSplits.cut([size] * (per_split * splits), splits)
    assert [b - a for a, b in pairwise(borders)] == [per_split] * splits


@given(st.integers(1, 40))
def test_files_without_a_size_are_cut_as_well(files: int) -> None:
    borders = FileSplits.cut([0] * files, 4)
    assert borders[-1] == files and all(a < b for a, b in pairwise(borders))


def test_a_digest_tells_any_two_lists_of_files_apart() -> None:
    lists = [[], [("a", 1)], [("a", 11)], [("a1", 1)], [("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a:1;1:b", 2)]]
    lists += [[("ä", 1)], [("a", 1), ("a", 1)]]
    assert len({FileSplits.digest_of(files) for files in lists}) == len(lists)
    assert FileSplits.digest_of(iter([("a", 1)])) == FileSplits.digest_of([("a", 1)])


def test_the_build_id_is_the_same_for_every_run_that_meets_the_same_target_and_name() -> None:
    assert build_id("t1", "orders") == build_id("t1", "orders")
    ids = {build_id(t, n) for t, n in [("t1", "orders"), ("t2", "orders"), ("t1", "order"), ("t1o", "rders")]}
    assert len(ids) == 4
    assert app_id(PLAN.build) == "b1/plan"
