"""The chain on real tables: the snapshot, then the log in order, epochs announced meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts import announcer, goals
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import NotAppendOnly
from airflow_backfill.core.model.announcement import Announcement, Kind, announcement
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.announcing import announcing
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.strategies import chain
from tests.spark.build import Build
from tests.spark.history import ROWS, Source, create

pytestmark = pytest.mark.spark

PLAIN = ("id", "part", "name", "n")


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Source:
    """A table without change feed, with rows that are there twice."""
    source = Source(spark, str(tmp_path / "events"), PLAIN)
    create(source, feed=False)
    source.append(0, 40)
    return source


def chained(source: Source, tmp_path: Path, key: list[str] | None = None, **spec: Any) -> Build:
    return Build(source, tmp_path / "target", strategy="chain", key=key or [], **spec)


def announcements(build: Build) -> list[Announcement]:
    log = build.reader.log
    found = (announcement(log.read(version)) for version in range(log.head() + 1))
    return [news for news in found if news is not None]


def slowly(build: Build, between: Callable[[int], None]) -> BuildState:
    """Read the snapshot file by file; ``between`` is called within each round, after it began and before it commits."""
    shell, me, done = Shell(build.spark, build.target), build.attempt(), 0
    with announcing(shell, me, None) as answer:

        def slow(effect: fx.Effect) -> Any:
            nonlocal done
            if isinstance(effect, fx.CommitRecord) and isinstance(effect.work, fx.AppendFiles):
                done += 1
                between(done)
            return answer(effect)

        return drive(run(SnapshotGoal(0, 1, RoundSize(bytes=1)), me), slow)


def test_an_append_only_table_without_key_and_feed(events: Source, tmp_path: Path) -> None:
    build = chained(events, tmp_path, select=["id", "upper(name) AS name", "n"], where="n > 10 OR n IS NULL")
    state = build.plan()
    assert (state.seen, state.applied, state.rearranging) == (events.head, None, True)
    pinned = events.head
    build.snapshot()
    events.append(0, 40, "again")
    events.sql("OPTIMIZE $table")
    events.append(0, 40, "again")
    assert build.prove().certificate is not None
    assert build.finish().phase is Phase.FINISHED
    build.assert_equal_at(events.head)
    assert not any("MERGE" in build.reader.log.read(v).operation for v in range(build.reader.log.head() + 1))
    events.append(0, 10, "third")
    state = build.upstream()
    build.assert_equal_at(events.head)
    assert (state.seen, state.applied, state.rearranging) == (events.head, events.head, False)
    applied = [epoch for r in build.records() if r.epochs for epoch in range(r.epochs.start, r.epochs.stop)]
    assert applied == list(range(pinned + 1, events.head + 1))


def test_epochs_are_announced_while_a_round_lasts(events: Source, tmp_path: Path) -> None:
    build, lags = chained(events, tmp_path), list[float]()
    pinned = build.plan().plan.source.epoch

    def wait_to_be_seen(done: int) -> None:
        if done > 2:
            return
        events.append(2000 * done, 2000 * done + 5)
        begun, head = time.monotonic(), events.head
        while build.reader.state().seen != head:
            assert time.monotonic() - begun < 60, "an epoch was not announced while a round lasted"
            time.sleep(0.1)
        lags.append(time.monotonic() - begun)

    slowly(build, wait_to_be_seen)
    print("seconds until an epoch was announced:", lags, "looks every", announcer.EVERY / 1000)
    assert len(lags) == 2
    announced = [news.epochs for news in announcements(build) if news.kind is Kind.EPOCHS]
    assert [e for epochs in announced if epochs for e in range(epochs.start, epochs.stop)] == [pinned + 1, pinned + 2]
    state = build.reader.state()
    assert (state.seen, state.applied) == (pinned + 2, None)
    rounds = [r for r in build.records() if r.event is Event.FILES]
    assert sum(r.work.snapshot_files for r in rounds) == state.plan.splits.files
    state = build.apply_log()
    assert not state.rearranging and announcements(build)[-1].kind is Kind.CAUGHT_UP
    build.verify()
    build.finish()
    build.assert_equal_at(events.head)


@pytest.mark.soak
def test_announcing_needs_a_core_and_not_all_of_them(
    events: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's checkpoints are jobs: each gets a core before a round that has tasks left, which ends later."""
    monkeypatch.setattr(chain, "CHECKPOINT_COMMITS", 1)
    build = chained(events, tmp_path)
    build.plan()
    over, seen = tmp_path / "over", list[int]()
    tasks = events.spark.sparkContext.parallelize(range(600), 600)

    def work(done: int) -> None:
        if done > 1:
            return
        thread = InheritableThread(target=lambda: tasks.foreach(lambda _: over.exists() or time.sleep(0.1)))
        thread.start()
        for number in (2, 3):
            events.append(1000 * number, 1000 * number + 5)
            while build.reader.state().seen != events.head:
                assert thread.is_alive(), "announcing waited for every task of a round"
                time.sleep(0.05)
            seen.append(number)
        over.touch()
        thread.join()

    slowly(build, work)
    assert seen == [2, 3]
    assert len(list((tmp_path / "target" / "_delta_log").glob("*.checkpoint.parquet"))) > 2


def test_a_source_that_says_nothing_after_its_snapshot_is_caught_up_at_once(
    events: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Announcer and work wake each other: neither waits for its next look, which comes here after two minutes."""
    begun = time.monotonic()
    monkeypatch.setattr(announcer, "EVERY", 120_000)
    monkeypatch.setattr(goals, "POLL_MS", 120_000)
    build = chained(events, tmp_path)
    pinned = build.plan().plan.source.epoch
    build.snapshot()
    state = build.apply_log()
    assert (state.applied, state.seen, state.handoff, state.rearranging) == (pinned, pinned, pinned, False)
    assert [news.kind for news in announcements(build) if news.kind is not Kind.CLAIM] == [Kind.CAUGHT_UP]
    assert time.monotonic() - begun < 120


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM $table WHERE $id = 3",
        pytest.param("RESTORE TABLE $table TO VERSION AS OF 1", marks=pytest.mark.soak),
    ],
    ids=lambda statement: statement.split()[0] + "_" + statement.split()[1],
)
def test_an_epoch_that_is_not_append_only_stops_it_with_its_number(
    events: Source, tmp_path: Path, statement: str
) -> None:
    build = chained(events, tmp_path)
    build.read()
    events.append(500, 510)
    events.sql("OPTIMIZE $table")
    last = events.head
    events.sql(statement)
    events.append(510, 520)
    with pytest.raises(NotAppendOnly) as stopped:
        build.consume_log()
    assert stopped.value.data["epoch"] == last + 1
    state = build.reader.state()
    assert (state.applied, state.seen) == (None, state.plan.source.epoch), "nothing is begun that cannot be finished"
    build.assert_equal_at(state.plan.source.epoch)


@pytest.mark.soak
def test_with_a_feed_and_a_key_changes_are_followed(source: Source, tmp_path: Path) -> None:
    build = chained(source, tmp_path, key=["id"])
    build.read()
    source.sql("UPDATE $table SET $name = 'changed' WHERE $id % 7 = 1")
    source.sql("DELETE FROM $table WHERE $id % 50 = 1")
    source.sql("INSERT INTO $table SELECT $id, $part, 'back', $n FROM $table VERSION AS OF 1 WHERE $id = 51")
    build.hand_off()
    build.assert_equal_at(source.head)
    assert build.rows().where("id = 51 AND name = 'back'").count() == 1


def test_a_row_too_many_is_seen_without_a_key(events: Source, tmp_path: Path) -> None:
    """Twins count: as often as in the source, not once more."""
    build = chained(events, tmp_path)
    state = build.hand_off()
    assert state.certificate is not None and state.certificate.rows == ROWS + 40
    twins = build.rows().groupBy("id", "name").count().where("count = 2").count()
    assert twins == 40
