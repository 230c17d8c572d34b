"""A target clustered by its key: sorted once the snapshot is read and between rounds, and equal to its source."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import ApplicationFailed, Cancelled, InvalidSpec
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.run import interpreter
from airflow_backfill.spark.run.dry_run import DryRun
from airflow_backfill.spark.session import interrupting
from airflow_backfill.spark.target_table import compaction
from airflow_backfill.spark.target_table.clustering import clustering_columns, cubes_up_to
from tests.spark.build import Build
from tests.spark.history import Source
from tests.spark.verify.test_checker import run

pytestmark = pytest.mark.spark

FEW = 20
"""Delta sorts by about 1,000 ranges of the keys, and a range may be in two files."""


def operations(build: Build) -> list[str | None]:
    log = build.reader.log
    return [log.read(version).operation for version in range(log.head() + 1)]


def files(build: Build) -> list[Mapping[str, Any]]:
    """The statistics of the target's files, and whether they are clustered."""
    found = DeltaVersion(build.spark, build.target, build.reader.log.head()).files
    return [{**json.loads(row["stats"]), "clustered": row["clusteringProvider"]} for row in found.collect()]


def overlapping(build: Build) -> int:
    """Pairs of files that share more than a few keys."""
    spans = sorted((f["minValues"]["id"], f["maxValues"]["id"]) for f in files(build))
    return sum(spans[j][0] + FEW <= spans[i][1] for i in range(len(spans)) for j in range(i + 1, len(spans)))


@pytest.fixture
def scattered(source: Source) -> Source:
    """Files that each hold keys of the whole range."""
    source.rows(1000, 5000).repartition(4).write.format("delta").mode("append").save(source.path)
    return source


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and small files are worth an OPTIMIZE."""
    monkeypatch.setattr(compaction, "LEAST_FILES", 4)
    monkeypatch.setattr(compaction, "SMALL_BYTES", 20_000)
    monkeypatch.setattr(compaction, "CLUSTERED_BYTES", 8_000)


def killed(*_: object) -> None:
    raise ApplicationFailed("killed")


@pytest.mark.soak
def test_a_clustered_target_is_sorted_before_the_log_and_between_rounds(
    scattered: Source, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scattered
    build = Build(source, tmp_path / "target", clustering="key")
    build.plan()
    assert build.spark.sql(f"DESCRIBE DETAIL delta.`{build.target}`").collect()[0]["clusteringColumns"] == ["id"]
    build.snapshot()
    build.consume_log()
    assert operations(build)[-2] == "OPTIMIZE"
    assert len(files(build)) >= 4 and overlapping(build) == 0 and all(f["clustered"] for f in files(build))
    source.sql("UPDATE $table SET $n = 7 WHERE $id = 1200")
    with monkeypatch.context() as patched, pytest.raises(ApplicationFailed):
        patched.setattr(interpreter, "compact", killed)
        build.consume_log()
    build.assert_equal_at(source.head)
    source.sql("UPDATE $table SET $name = 'far apart' WHERE $id IN (1, 4999)")
    build.consume_log()
    assert sum(f["numRecords"] for f in files(build) if not f["clustered"]) == 3
    merged = build.reader.log.read(build.reader.log.head())
    assert merged.metrics["numTargetDeletionVectorsAdded"] == 2, "in the files of the two keys"
    for epoch in range(4):
        source.append(20_000 + 10 * epoch, 20_010 + 10 * epoch)
        build.consume_log()
    assert operations(build).count("OPTIMIZE") >= 2
    build.catch_up()
    build.verify()
    build.finish()
    assert run(build.target)[0] == 0
    source.sql("DELETE FROM $table WHERE $id % 9 = 1")
    assert build.upstream().phase is Phase.UPSTREAM
    build.assert_equal_at(source.head)


def test_a_target_that_its_owner_clusters_is_sorted_before_the_snapshot_is_sealed(
    scattered: Source, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(scattered, tmp_path / "target")
    build.plan()
    build.spark.sql(f"ALTER TABLE delta.`{build.target}` CLUSTER BY (id)")
    build.spark.sql(f"ALTER TABLE delta.`{build.target}` SET TBLPROPERTIES ('{compaction.ASKED}' = 'true')")
    build.snapshot()

    def interrupted(*_: object) -> None:
        build.order(Command(Verb.CANCEL))
        time.sleep(1)

    for ending, error in ((killed, ApplicationFailed), (interrupted, Cancelled)):
        with monkeypatch.context() as patched, pytest.raises(error):
            patched.setattr(interpreter, "compact", ending)
            patched.setattr(interrupting, "CHECK_SECONDS", 0.1)
            build.consume_log()
        assert build.reader.state().phase is Phase.SNAPSHOT, "the next attempt sorts it"
    build.plan()
    build.consume_log()
    assert operations(build)[-2] == "OPTIMIZE" and overlapping(build) == 0
    build.assert_equal_at(scattered.head)


@pytest.mark.parametrize(
    ("cubes", "loose", "limit"),
    [
        ([], [10] * 6, 61),
        ([100], [10] * 6, 100),
        ([50], [10] * 6, 111),
        ([40, 90, 500], [10] * 6, 500),
        ([500], [10], None),
        ([10], [300], 311),
        ([500], [300], None),
        ([500], [], None),
    ],
    ids=["first", "larger", "smaller", "adds up", "few", "many bytes", "less than all", "none"],
)
def test_a_cube_is_sorted_again_once_as_many_bytes_are_smaller(
    spark: SparkSession, cubes: list[int], loose: list[int], limit: int | None
) -> None:
    rows = [({"ZCUBE_ID": str(n)}, size // 2) for n, size in enumerate(cubes) for _ in range(2)]
    rows += [({}, size) for size in loose]
    frame = spark.createDataFrame(rows or [({}, 0)], "tags map<string, string>, size bigint")
    assert cubes_up_to(frame if rows else frame.limit(0), least_files=6, least_bytes=100) == limit


def test_a_key_that_delta_cannot_sort_by_is_refused() -> None:
    schema = StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in (("a", "binary"), ("b", "long"), ("c", "decimal(9,2)"), ("d", "boolean"))
            ],
        }
    )
    assert clustering_columns(["a", "b", "c", "d"], schema) == ["b", "c"]
    with pytest.raises(InvalidSpec, match="a binary, d boolean"):
        clustering_columns(["a", "d"], schema)


@pytest.mark.parametrize("cut", ["PARTITIONED BY (part)", ""])
def test_a_target_that_exists_and_is_not_clustered_is_refused(source: Source, tmp_path: Path, cut: str) -> None:
    """Delta would leave the table as it is, and no later OPTIMIZE would cluster it."""
    build = Build(source, tmp_path / "target", clustering="key")
    build.spark.sql(
        f"CREATE TABLE delta.`{build.target}` (id BIGINT, part INT, name STRING, n INT) USING delta {cut} "
        f"TBLPROPERTIES ('{OWNER}' = 'build')"
    )
    said = "exists and is partitioned by part, and Delta" if cut else "exists and is not clustered"
    for look in (build.plan, lambda: DryRun(build.spark, build.spec, 1, build.attempt())._known()):
        with pytest.raises(InvalidSpec, match=said):
            look()
    assert build.reader.log.head() == 0
