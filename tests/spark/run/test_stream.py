"""A stream of one's own goes on right after the hand-off, whether the source has got there or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.spark.run.stream import follow
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.fixture
def drained(spark: SparkSession, tmp_path: Path) -> Callable[[DataFrame], list[tuple[int, int, str]]]:
    """What a stream has brought so far."""

    def drain(rows: DataFrame) -> list[tuple[int, int, str]]:
        found = str(tmp_path / "followed")
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"{found}.checkpoint")
        writer.trigger(availableNow=True).start(found).awaitTermination()
        if not Path(found).exists():
            return []
        seen = spark.read.format("delta").load(found).select("_commit_version", "id", "_change_type")
        return sorted((version, key, kind) for version, key, kind in seen.collect() if kind != "update_preimage")

    return drain


def test_it_begins_after_the_hand_off_and_misses_nothing(
    source: Source, tmp_path: Path, drained: Callable[[DataFrame], list[tuple[int, int, str]]]
) -> None:
    build = Build(source, tmp_path / "target")
    source.sql("UPDATE $table SET n = 1 WHERE id = 1")
    state = build.hand_off()
    assert state.applied == source.head
    # The source stands where the target does: there is nothing yet to begin with.
    assert drained(follow(source.spark, build.target)) == []
    source.sql("UPDATE $table SET n = 2 WHERE id = 1")
    source.sql("DELETE FROM $table WHERE id = 2")
    first = state.applied + 1
    expected = [(first, 1, "update_postimage"), (first + 1, 2, "delete")]
    assert drained(follow(source.spark, build.target)) == expected


def test_nothing_is_followed_before_the_hand_off(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.plan()
    with pytest.raises(NotAllowedNow, match="snapshot"):
        follow(source.spark, build.target)
