"""Logs that Spark wrote, against what Spark and deltalake say of them; and the store on Hadoop, which needs its JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.delta.changed_rows import changed_rows
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.log_listing import LogListing
from tests.ledger.contract import CHECKS
from tests.spark.ledger.sample import write

pytestmark = pytest.mark.spark
Sample = tuple[Path, dict[str, Any]]
TABLES = ("changed", "checkpointed")


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A folder with two tables that Spark wrote, and what Spark says of them."""
    folder = tmp_path_factory.mktemp("sample")
    return folder, write(spark, folder)


def read(folder: Path, table: str) -> list[Commit]:
    """All commits of a table, oldest first."""
    return list(DeltaLog(LocalStore(str(folder / table))).newest_first())[::-1]


@pytest.mark.parametrize("table", TABLES)
def test_commits_are_those_of_the_history(table: str, sample: Sample) -> None:
    folder, expected = sample
    commits = read(folder, table)
    assert [commit.version for commit in commits] == list(range(expected[table]["head"] + 1))
    for commit in commits:
        told = expected[table]["commits"][str(commit.version)]
        assert commit.operation == told["operation"]
        # Without timestamps in commits Spark goes by the file's, written a moment later.
        assert 0 <= told["timestamp"] - commit.timestamp <= (60_000 if table == "changed" else 0)
        assert commit.user_metadata == told["user_metadata"]
        assert {name: str(value) for name, value in commit.metrics.items()} == told["metrics"]


@pytest.mark.parametrize("table", TABLES)
def test_counts_add_up_to_the_rows_of_every_version(table: str, sample: Sample) -> None:
    folder, expected = sample
    rows = 0
    for commit in read(folder, table):
        assert commit.added.rows is not None and commit.removed.rows is not None
        rows += commit.added.rows - commit.added.deleted_rows
        rows -= commit.removed.rows - commit.removed.deleted_rows
        assert rows == expected[table]["commits"][str(commit.version)]["rows"], commit


def test_every_commit_changes_as_many_rows_as_it_did(sample: Sample) -> None:
    """And not every row of the files that it touched."""
    rows = [changed_rows(commit) for commit in read(sample[0], "changed")]
    assert rows[:7] == [0, 1000, 500, 300, 170, 510, 0] and rows[9] == 0


def test_every_kind_of_commit_is_told_apart(sample: Sample) -> None:
    commits = read(sample[0], "changed")
    kinds = [(c.operation, c.data_change, c.rewrites, c.append_only, c.changed.files > 0) for c in commits]
    assert kinds == [
        ("CREATE TABLE", False, False, False, False),
        ("WRITE", True, False, True, False),
        ("WRITE", True, False, True, False),
        ("MERGE", True, False, False, True),
        ("DELETE", True, False, False, False),
        ("DELETE", True, False, False, False),
        ("OPTIMIZE", False, True, False, False),
        ("SET TBLPROPERTIES", False, False, False, False),
        ("RESTORE", True, False, False, False),
        ("WRITE", False, False, False, False),
    ]
    assert [commit.restored for commit in commits] == [None] * 8 + [3, None]
    merge, first_delete, second_delete, optimize = commits[3:7]
    assert merge.changed.rows is None
    assert merge.changed.files == merge.metrics["numTargetChangeFilesAdded"]
    assert first_delete.added.deleted_rows > first_delete.removed.deleted_rows > 0
    assert second_delete.added.files == 0
    assert optimize.added.bytes == optimize.metrics["numAddedBytes"]
    assert optimize.removed.bytes == optimize.metrics["numRemovedBytes"]
    assert [version for version, commit in enumerate(commits) if commit.metadata] == [0, 7, 8]
    assert [version for version, commit in enumerate(commits) if commit.protocol] == [0, 8]
    assert {commit.metadata.table_id for commit in commits if commit.metadata} == {
        sample[1]["changed"]["metadata"]["id"]
    }


def test_transactions_carry_records(sample: Sample) -> None:
    with_txn = [commit for commit in read(sample[0], "changed") if commit.txns]
    assert [(commit.version, commit.txns) for commit in with_txn] == [
        (1, {"build-1/0/0": 1}),
        (2, {"build-1/0/0": 2}),
        (9, {"build-1/0/0": 3}),
    ]
    for commit in with_txn:
        assert commit.user_metadata is not None
        assert json.loads(commit.user_metadata) == {"seq": commit.txns["build-1/0/0"], "note": "ü → \n end"}


@pytest.mark.parametrize("table", TABLES)
def test_protocol_and_metadata_are_those_of_the_snapshot(table: str, sample: Sample, tmp_path: Path) -> None:
    """From the checksum, then with all of them gone from the checkpoint, then from the commits alone."""
    folder, expected = sample
    copy = tmp_path / table
    shutil.copytree(folder / table / "_delta_log", copy / "_delta_log")
    log = DeltaLog(LocalStore(str(copy)))
    told = expected[table]
    listing = LogListing.of(path.name for path in (copy / "_delta_log").iterdir())
    assert listing.checksums and listing.checkpoints
    for leave_out in ("*.none", "*.crc", "*.checkpoint.*"):
        for path in (copy / "_delta_log").glob(leave_out):
            path.unlink()
        protocol, metadata = log.protocol_and_metadata()
        check_readable(protocol)
        assert protocol.reader_version == told["protocol"]["minReaderVersion"]
        assert protocol.writer_version == told["protocol"]["minWriterVersion"]
        assert protocol.reader_features == set(told["protocol"].get("readerFeatures", ()))
        assert protocol.writer_features == set(told["protocol"]["writerFeatures"])
        assert metadata.table_id == told["metadata"]["id"]
        assert metadata.schema_json == told["metadata"]["schemaString"]
        assert list(metadata.partition_columns) == told["metadata"]["partitionColumns"]
        assert metadata.configuration == told["metadata"]["configuration"]


def test_a_cleaned_log_is_read_from_its_checkpoint(sample: Sample, tmp_path: Path) -> None:
    folder, expected = sample
    copy = tmp_path / "changed"
    shutil.copytree(folder / "changed" / "_delta_log", copy / "_delta_log")
    checkpoint = max(LogListing.of(path.name for path in (copy / "_delta_log").iterdir()).checkpoints)
    for version in range(checkpoint + 1):
        for suffix in ("json", "crc"):
            (copy / "_delta_log" / f"{version:020}.{suffix}").unlink(missing_ok=True)
    for path in (copy / "_delta_log").glob("*.crc"):
        path.unlink()
    log = DeltaLog(LocalStore(str(copy)))
    assert log.versions(-1)[0] == checkpoint + 1
    assert log.protocol_and_metadata()[1].table_id == expected["changed"]["metadata"]["id"]


def test_deltalake_says_the_same(sample: Sample) -> None:
    folder, expected = sample
    opened = deltalake.DeltaTable(folder / "changed")
    commits = read(folder, "changed")
    assert opened.version() == commits[-1].version == expected["changed"]["head"]
    assert opened.transaction_version("build-1/0/0") == commits[-1].txns["build-1/0/0"]
    assert opened.metadata().id == expected["changed"]["metadata"]["id"]
    history = {entry["version"]: entry for entry in opened.history()}
    for commit in commits:
        told = history[commit.version]
        assert commit.timestamp == told["timestamp"] and commit.operation == told["operation"]
        assert commit.user_metadata == told.get("userMetadata")


def test_a_log_of_another_writer(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number in range(3):
        deltalake.write_deltalake(table, pa.table({"a": [1, 2, number]}), mode="append")
    opened = deltalake.DeltaTable(table)
    opened.create_checkpoint()
    opened.delete("a = 2")
    log = DeltaLog(LocalStore(str(table)))
    assert log.head() == opened.version() == 3
    assert log.protocol_and_metadata()[1].table_id == opened.metadata().id
    *appends, delete = list(log.newest_first())[::-1]
    assert [commit.added.rows for commit in appends] == [3, 3, 3]
    assert all(commit.append_only for commit in appends)
    assert (delete.operation, delete.data_change, delete.removed.files) == ("DELETE", True, 3)
    assert delete.removed.rows is None, "this writer leaves no counts in remove actions"


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_the_contract_of_a_store_on_hadoop(name: str, sample: Sample) -> None:
    _, expected = sample
    assert expected["contract"][name] == "kept"
