from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill.core.kafka.split import Split
from tests.core.kafka.cuts import History, history, in_sets, many, row_by_row

RUNS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(1, 15), min_size=1)), max_size=6)


@settings(max_examples=200)
@given(st.none() | st.integers(0, 60), RUNS, st.integers(0, 2**32))
def test_sets_say_what_rows_say(target: int | None, steps: list[tuple[bool, set[int]]], cut: int) -> None:
    at, told = {True: 0, False: -1}, History(target)
    for lands, distances in steps:
        told.runs.append((lands, [at[lands] + n for n in sorted(distances)]))
        at[lands] = told.runs[-1][1][-1]
    assert row_by_row(told) == in_sets(told, random.Random(cut))


@pytest.mark.slow
def test_many_histories_agree() -> None:
    assert many(range(3_000)) == []


@pytest.mark.soak
def test_very_many_histories_agree() -> None:
    assert many(range(3_000, 300_000)) == []


def test_every_state_on_the_way_can_be_stored() -> None:
    for seed in range(1_000):
        for split, _ in row_by_row(history(random.Random(seed))):
            assert Split.from_json(split.to_json()) == split


def test_without_a_target_every_record_is_visible_in_order() -> None:
    for seed in range(1_000):
        told = history(random.Random(seed))
        told = History(None, [run for run in told.runs if not run[0]])
        records = [offset for _, run in told.runs for offset in run]
        end = row_by_row(told)
        assert [offset for _, visible in end for _, offset in visible] == records
        if end:
            assert end[-1][0].written == end[-1][0].read == len(records)
