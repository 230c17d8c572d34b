"""What the statistics of files tell about a range of keys is what its rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.spark.delta import range_files
from airflow_backfill.spark.delta.range_files import RangeFiles
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.key_order import KeyOrder
from tests.spark.build import no_rows
from tests.spark.history import Source

pytestmark = pytest.mark.spark


def files_at(source: Source, epoch: int) -> RangeFiles:
    order = KeyOrder.of(source.at(epoch).schema, [source.key])
    return RangeFiles.of(DeltaVersion(source.spark, source.path, epoch), order)


def test_rows_are_counted_and_new_ones_are_noticed(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    ids = [Counter(row[0] for row in source.at(epoch).select(source.key).collect()) for epoch in range(1, 9)]
    files = [files_at(source, epoch) for epoch in range(1, 9)]
    told = []
    for late, (low, high) in product((1, 2, 7), ((-1, 119), (119, 999), (999, 9999))):
        before, after = ({k: n for k, n in ids[at].items() if low < k <= high} for at in (late - 1, late))
        of_range, parted = files[late].of_range((str(low),), (str(high),)), 0
        if of_range.parted:
            parted = files[late].rows_of_parted((str(low),), (str(high),)).count()
        new = files[late].has_new_rows((str(low),), (str(high),), files[late - 1])
        told.append((of_range.rows > 0, parted > 0, not new and after != before))
        assert of_range.rows + parted == sum(after.values()), (low, high, late)
        assert new or all(n <= before.get(k, 0) for k, n in after.items()), (low, high, late)
    assert [any(kind) for kind in zip(*told, strict=True)] == [True, True, True], (
        "some were parted, some only lost rows"
    )


def test_rows_that_a_restore_brings_back_are_new(spark: SparkSession, tmp_path: Path) -> None:
    """The files have the names that they had, but rows that were deleted are there again."""
    source = no_rows(spark, str(tmp_path / "restored"), ("id", "part", "name", "n"))
    source.sql("ALTER TABLE $table SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    source.append(0, 100)
    whole = source.head
    source.sql("DELETE FROM $table WHERE $id = 5")
    less = source.head
    source.sql(f"RESTORE TABLE $table TO VERSION AS OF {whole}")
    all_, deleted, back = (files_at(source, e) for e in (whole, less, source.head))
    assert not deleted.has_new_rows((), None, all_) and deleted.of_range((), None).rows == 99
    assert back.has_new_rows((), None, deleted)
    assert not back.has_new_rows((), None, all_)


def test_a_file_may_hold_times_just_after_the_millisecond_in_its_statistics(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "times")
    spark.sql(f"CREATE TABLE delta.`{path}` (at TIMESTAMP) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (TIMESTAMP'2026-01-01 00:00:00.0005Z')")
    files = RangeFiles.of(DeltaVersion(spark, path, 1), KeyOrder.of(spark.table(f"delta.`{path}`").schema, ["at"]))
    assert files.of_range(("TIMESTAMP'2026-01-01 00:00:00Z'",), None).files == 1


def test_the_bytes_of_all_rounds_are_those_of_each(clustered: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_files, "AT_ONCE", 3)
    files = files_at(clustered, clustered.head)
    borders = [(str(key),) for key in range(50, 1800, 250)]
    ranges = zip([(), *borders], [*borders, None], strict=True)
    assert files.bytes_of_rounds(borders) == sum(files.of_range(low, high).bytes for low, high in ranges)


def test_the_share_of_files_that_hold_some_ranges(clustered: Source) -> None:
    files = files_at(clustered, clustered.head)
    whole, one = files.of_range((), None).bytes, files.of_range(("1199",), ("1399",)).bytes
    assert files.share([]) == 0.0
    assert files.share([(("1200",), ("1210",)), (("1300",), ("1399",))]) == one / whole
    spans = files.spans(100)
    assert spans[-2:] == [(("1400L",), ("1599L",)), (("1600L",), ("1799L",))] and len(spans) == 8
    assert files.share(spans) == 1.0
