"""Rounds of a topic whose records Kafka deletes or compacts before they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.errors import (
    KafkaLost,
    SourceUnavailable,
)
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, opened
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move
from airflow_backfill.core.strategies.offsets_round import Poll
from airflow_backfill.core.values.control import Command, Control, Verb, obey
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.topic_rounds import (
    E0,
    EVERYTHING,
    LOGS,
    plan,
    seen,
    splits,
    turn,
)


def test_records_that_retention_took_are_missed() -> None:
    with pytest.raises(KafkaLost, match="needs offset 0, but Kafka's log starts at 3"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("id", {**LOGS, 0: Log(3, 100)}), landed={})


def test_records_that_retention_took_are_read_where_they_landed() -> None:
    """In a range of their own, at the newest epoch of the landing table that there is."""
    topic = fx.Topic("id", {**LOGS, 0: Log(3, 100)})
    move, asked = turn(BuildState.planned(plan()), seen(0, 0), topic=topic)
    assert asked[2] == fx.FetchRecords({}, hold=False, kept=fx.Kept({0: Offsets(0, 3)}, E0 + 2))
    assert asked[3] == fx.FetchRecords({1: Offsets(0, 40)}, kept=fx.Kept({0: Offsets(0, 3)}, E0 + 2))
    assert (splits(move)[0].floor, splits(move)[0].scanned, splits(move)[0].lost) == (3, 2, 0)


SHORT = fx.Topic("id", {**LOGS, 0: Log(30, 100)})
SOME = {0: Batch(10, 19, 10)}


def test_what_retention_takes_faster_than_it_is_read_is_not_refused_for_good() -> None:
    """If the rest may be skipped, the next round reads on; else the loss is named, with the command that passes it."""
    lost = KafkaLost("deleted since the broker was asked")
    with pytest.raises(SourceUnavailable) as late:
        turn(BuildState.planned(plan(spec={"expired": "skip"})), seen(), lost=lost)
    assert late.value.retry


def test_what_is_passed_over_is_counted_if_that_is_wanted() -> None:
    move, _ = turn(BuildState.planned(plan(spec={"expired": "skip"})), seen(), topic=SHORT, landed=SOME)
    assert (splits(move)[0].floor, splits(move)[0].lost) == (30, 20)
    with pytest.raises(KafkaLost) as lost:
        turn(BuildState.planned(plan()), seen(), topic=SHORT, landed=SOME)
    assert lost.value.data["missing"] == 20 and "table-backfill skip" in lost.value.message


def test_what_is_lost_while_a_history_is_read_is_passed_over_once_that_is_ordered() -> None:
    ordered = replace(seen(), control=obey(Control(), [(1, Command(Verb.SKIP))]))
    move, _ = turn(BuildState.planned(plan()), ordered, topic=SHORT, landed=SOME)
    assert (splits(move)[0].floor, splits(move)[0].lost) == (30, 20)


@pytest.mark.parametrize(
    ("key", "compacted", "landed", "expected"),
    [
        (("id",), True, 59, Offsets(0, 40)),
        (("id",), True, 20, Offsets(0, 21)),
        (("id",), True, None, None),
        (("id",), False, 59, Offsets(0, 40)),
        ((), True, 59, None),
    ],
)
def test_a_tombstone_that_is_compacted_away_is_looked_for_where_it_landed(
    key: tuple[str, ...], compacted: bool, landed: int | None, expected: Offsets | None
) -> None:
    logs = {0: Log(0, 40 if landed is None else max(landed + 1, 40))}
    some = plan(logs)
    found = Partitions("id", tuple(opened(0, log, landed, None) for log in logs.values()), "rules", compacted)
    state = BuildState.planned(replace(some, splits=found, spec=replace(some.spec, key=key)))
    step, topic = Poll(EVERYTHING, RoundSize(rows=40)), fx.Topic("id", logs)
    for fetched in ({0: Batch(3, 38, 9)}, {}):
        move, _ = turn(state, seen(), topic=topic, fetched=fetched, step=step)
        assert isinstance(move, Move)
        assert getattr(move.work, "compacted", None) == (fx.Kept({0: expected}, E0) if expected else None)
    move, _ = turn(state, seen(), topic=topic, step=step)
    assert isinstance(move, Move) and isinstance(move.work, fx.TakeOffsets) and move.work.compacted is None
