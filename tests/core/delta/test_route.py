"""The cheapest way that is right, from sizes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.delta.route import Footprint, Leg, Route, choose

MB = 1 << 20
TABLE = {f"f{n}": 100 * MB for n in range(10)}


def deletes(first: int, count: int) -> list[Footprint]:
    """Deletes that leave deletion vectors on the whole table."""
    return [Footprint(first + n, files=TABLE, masked=True) for n in range(count)]


def updates(first: int, count: int) -> list[Footprint]:
    """Updates with change data."""
    return [Footprint(first + n, changes=[MB], files=TABLE, masked=True) for n in range(count)]


def ways(legs: list[Leg]) -> list[tuple[int, int, str]]:
    return [(leg.epochs.start, leg.epochs.stop, leg.route.value) for leg in legs]


@pytest.mark.parametrize(
    ("footprints", "expected"),
    [
        (updates(1, 30), (1, 31, "feed")),
        (deletes(1, 1), (1, 2, "feed")),
        ([Footprint(n, files={f"new{n}": MB}) for n in range(5)], (0, 5, "feed")),
        ([one for n in range(0, 20, 2) for one in (*updates(n, 1), *deletes(n + 1, 1))], (0, 20, "difference")),
    ],
    ids=["change data", "one delete", "appends", "deletes and updates in turn"],
)
def test_all_epochs_of_a_kind_go_one_way(footprints: list[Footprint], expected: tuple[int, int, str]) -> None:
    assert ways(choose(footprints)) == [expected]


def test_deletes_over_the_same_files_are_read_once() -> None:
    (leg,) = choose(deletes(1, 30))
    assert ways([leg]) == [(1, 31, "difference")] and leg.cost < 1200 * MB
    assert "10 files are read once for 30 epochs" in leg.reason


def test_vectors_that_differ_in_many_rows_are_not_read_by_the_feed() -> None:
    (one,) = deletes(5, 1)
    (leg,) = choose([replace(one, long=True)])
    assert ways([leg]) == [(5, 6, "difference")] and leg.reason == "its deletion vectors differ in many rows"
    (update,) = updates(5, 1)
    assert ways(choose([replace(update, long=True)])) == [(5, 6, "feed")], "its change data has the rows"


def test_nothing_reaches_over_a_change_of_the_protocol() -> None:
    upgrade = Footprint(4, files={"x": MB}, upgrades=True)
    assert ways(choose([*updates(1, 3), upgrade, *updates(5, 2)])) == [(1, 4, "feed"), (4, 7, "feed")]
    (upgrade,) = (replace(one, upgrades=True) for one in deletes(4, 1))
    assert ways(choose([*deletes(1, 3), upgrade, *deletes(5, 2)])) == [(1, 4, "difference"), (4, 7, "difference")]


def test_a_run_of_deletes_among_updates_that_touched_other_files() -> None:
    light = [Footprint(n, changes=[MB], files={f"large{n}": 5000 * MB}) for n in (1, 2, 9)]
    legs = choose([*light[:2], *deletes(3, 6), light[2]])
    assert ways(legs) == [(1, 3, "feed"), (3, 9, "difference"), (9, 10, "feed")]


def test_a_difference_does_not_reach_over_a_rewrite_or_a_change_of_schema() -> None:
    optimize = Footprint(10, rewrites=True)
    altered = Footprint(21, files=TABLE, masked=True, reshapes=True)
    legs = choose([*deletes(0, 10), optimize, *deletes(11, 10), altered, *deletes(22, 3)])
    assert ways(legs) == [(0, 10, "difference"), (10, 11, "feed"), (11, 21, "difference"), (21, 25, "difference")]


def test_change_data_that_is_not_trusted_is_not_read() -> None:
    one = Footprint(1, changes=[1], files=TABLE, distrusted=True)
    (leg,) = choose([one])
    assert leg.route is Route.DIFFERENCE and "incomplete" in leg.reason


footprint_lists = st.lists(
    st.builds(
        Footprint,
        epoch=st.just(0),
        changes=st.lists(st.integers(0, 50 * MB), max_size=2),
        files=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 500 * MB)),
        masked=st.booleans(),
        rewrites=st.booleans(),
        reshapes=st.booleans(),
        distrusted=st.booleans(),
    ),
    max_size=12,
)


@given(footprint_lists)
def test_legs_cover_every_epoch_once_in_order_and_are_right(drawn: list[Footprint]) -> None:
    footprints = [
        Footprint(7 + n, f.changes, f.files, f.masked, f.rewrites, f.reshapes, f.distrusted)
        for n, f in enumerate(drawn)
    ]
    legs = choose(footprints)
    covered = [epoch for leg in legs for epoch in range(leg.epochs.start, leg.epochs.stop)]
    assert covered == [f.epoch for f in footprints]
    for leg in legs:
        inside = [f for f in footprints if f.epoch in leg.epochs]
        if leg.route is Route.FEED:
            assert not any(f.distrusted for f in inside)
        else:
            assert not any(f.rewrites or f.reshapes for f in inside[1:])
            assert not any(f.rewrites for f in inside[:1]) or len(inside) == 1


@given(footprint_lists)
def test_no_way_costs_more_than_reading_every_feed(drawn: list[Footprint]) -> None:
    footprints = [
        Footprint(n, f.changes, f.files, f.masked, f.rewrites, f.reshapes, False) for n, f in enumerate(drawn)
    ]
    assert sum(leg.cost for leg in choose(footprints)) <= sum(f.feed_cost for f in footprints)


def in_turn(count: int) -> list[Footprint]:
    """Deletes of the whole table, and updates of files that nothing else touches: each by its own way is cheapest."""
    return [
        one
        for n in range(0, 2 * count, 2)
        for one in (*deletes(n, 1), Footprint(n + 1, changes=[1], files={f"large{n}": 90_000 * MB}))
    ]


def test_a_plan_has_few_legs_however_many_would_be_cheapest() -> None:
    apart = [
        replace(one, files={f"{name}-{one.epoch}": size for name, size in one.files.items()}) for one in in_turn(9)
    ]
    distrusted = [replace(one, distrusted=one.masked) for one in apart]
    assert len(choose(distrusted[:16])) == 16 and ways(choose(distrusted)) == [(0, 18, "difference")]
    assert ways(choose(in_turn(500))) == [(0, 1000, "feed")]


@given(footprint_lists, st.integers(1, 40))
def test_as_many_legs_as_there_are_rewrites_and_changes_of_schema_and_no_more(
    drawn: list[Footprint], times: int
) -> None:
    footprints = [
        Footprint(n, f.changes, f.files, f.masked, f.rewrites, f.reshapes, f.distrusted)
        for n, f in enumerate(drawn * times)
    ]
    assert len(choose(footprints)) <= max(16, 1 + sum(2 * f.rewrites + f.reshapes for f in footprints))
