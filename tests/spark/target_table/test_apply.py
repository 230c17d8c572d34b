"""Every way into the target is one commit that carries rows, transaction and metadata, and leaks nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import QueryRefused, TargetRefuses
from airflow_backfill.spark import delta_internals as delta_log
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.session.failure import coded, conflict_of
from airflow_backfill.spark.session.temporary_settings import settings_for
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.apply import KeyMet, Txn, append, empty, merge
from airflow_backfill.spark.target_table.net_change import NetChanges, net_changes
from airflow_backfill.spark.transform.transform import parse
from tests.spark.target_table.test_net_change import changes_of, transform_of

pytestmark = pytest.mark.spark


def commits(target: str) -> list[list[dict[str, Any]]]:
    files = sorted(Path(target, "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def of_kind(commit: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in commit if kind in action]


def content(spark: SparkSession, target: str) -> set[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(target).collect()
    assert len(rows) == len(set(rows))
    return {tuple(row) for row in rows}


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> str:
    """Four files of 25 keys each: 0 to 24, 25 to 49, ..."""
    path = str(tmp_path / "target")
    rows = spark.range(0, 100, 1, 4).selectExpr("cast(id as int) id", "concat('v', id) v", "cast(1 as int) n")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    return path


def net_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> NetChanges:
    changes = changes_of(spark, rows)
    return net_changes(changes, transform_of(spark, changes), ("id",))


@pytest.mark.parametrize("text", [pytest.param("", marks=pytest.mark.soak), "__HIVE_DEFAULT_PARTITION__"])
def test_no_text_becomes_null_in_a_partition(spark: SparkSession, tmp_path: Path, text: str) -> None:
    path = str(tmp_path / "target")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING, n INT) USING delta PARTITIONED BY (v)")
    rows = spark.createDataFrame([(1, "a", 1), (2, None, 1)], "id int, v string, n int")
    append(rows, path, Txn("a", 1), "first")
    emptied = [(1, "a", 1, "update_preimage", 5), (1, text, 1, "update_postimage", 5)]
    for write in (
        lambda: append(rows.replace("a", text), path, Txn("a", 2), "second"),
        lambda: merge(net_of(spark, emptied), path, ["id"], Txn("a", 2), "second"),
    ):
        with pytest.raises((PySparkException, Py4JJavaError)) as raised:
            write()
        assert isinstance(coded(raised.value), TargetRefuses)
    corrected = [(1, text, 1, "update_preimage", 6), (1, "b", 1, "update_postimage", 6)]
    with net_of(spark, emptied + corrected) as net:
        merge(net, path, ["id"], Txn("a", 2), "second")
    with net_of(spark, [(2, text, 1, "delete", 7)]) as net:
        merge(net, path, ["id"], Txn("a", 3), "third")
    assert content(spark, path) == {(1, "b", 1)}


def assert_barrier(commit: list[dict[str, Any]], txn: Txn, user_metadata: str) -> None:
    ((found,), (info,)) = of_kind(commit, "txn"), of_kind(commit, "commitInfo")
    assert (found["appId"], found["version"]) == (txn.app_id, txn.version)
    assert info["userMetadata"] == user_metadata


def test_an_append_is_one_commit(spark: SparkSession, target: str) -> None:
    """And one job, however many files the table has: its state is not rebuilt."""
    rows = spark.sql("SELECT 100 AS id, 'new' AS v, CAST(NULL AS INT) AS n")
    txn = Txn("build/0/0", 7)
    before = jobs(spark)
    append(rows, target, txn, '{"seq": 7}')
    assert len(commits(target)) == 2 and len(jobs(spark) - before) == 1
    assert_barrier(commits(target)[1], txn, '{"seq": 7}')
    assert (100, "new", None) in content(spark, target)
    append(rows, target, txn, "again")
    assert len(commits(target)) == 2, "a sequence number that is there already is passed over"


def test_an_append_with_another_schema_changes_nothing(spark: SparkSession, target: str) -> None:
    for columns, found in (("1 AS id, 'x' AS v, 1 AS n, 2 AS more", "there is no such"), ("'x' AS id", "type int:")):
        with pytest.raises(QueryRefused, match=found):
            append(spark.sql(f"SELECT {columns}"), target, Txn("a", 1), "m")
    assert len(commits(target)) == 1


def test_an_empty_barrier_has_no_rows_and_no_files(spark: SparkSession, target: str) -> None:
    before = content(spark, target)
    txn = Txn("build/0/0", 1)
    empty(spark, target, txn, "nothing")
    assert_barrier(commits(target)[1], txn, "nothing")
    assert not of_kind(commits(target)[1], "add")
    assert content(spark, target) == before


@pytest.mark.parametrize("writer", ["Delta", "one that keeps no checksums"])
def test_an_empty_barrier_is_passed_over_where_its_number_is_there(
    spark: SparkSession, target: str, writer: str
) -> None:
    """Also of a version whose checksum does not list the transactions; where it does, no job is run to find out."""
    empty(spark, target, Txn("build/0/0", 4), "first")
    append(one_row(spark), target, Txn("build/0/1", 9), "another lane")
    if writer != "Delta":
        for checksum in Path(target, "_delta_log").glob("*.crc"):
            checksum.unlink()
    spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    before = jobs(spark)
    for version in (3, 4):
        empty(spark, target, Txn("build/0/0", version), "again")
    assert (not jobs(spark) - before) == (writer == "Delta")
    assert len(commits(target)) == 3
    empty(spark, target, Txn("build/0/0", 5), "next")
    assert_barrier(commits(target)[3], Txn("build/0/0", 5), "next")


def test_an_empty_barrier_loses_to_another_with_its_number(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn, looked = Txn("build/0/0", 1), delta_log._version_of

    def overtaken(*arguments: Any) -> int:
        found = looked(*arguments)
        monkeypatch.setattr(delta_log, "_version_of", looked)
        append(one_row(spark), target, txn, "first")
        return found

    monkeypatch.setattr(delta_log, "_version_of", overtaken)
    with pytest.raises((Py4JJavaError, PySparkException)) as raised:
        empty(spark, target, txn, "second")
    assert conflict_of(raised.value) == "ConcurrentTransactionException"
    assert len(commits(target)) == 2


def jobs(spark: SparkSession) -> set[int]:
    """Those that Spark remembers: it forgets a tenth of them when there are a thousand."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_a_merge_is_one_commit_and_leaves_no_trace_in_the_session(spark: SparkSession, target: str) -> None:
    before = content(spark, target)
    txn = Txn("build/0/0", 3)
    changed = [
        (1, "v1", 1, "update_preimage", 5),
        (1, "changed", 2, "update_postimage", 5),
        (2, "v2", 1, "delete", 5),
        (500, "new", None, "insert", 5),
        (501, "never there", 1, "delete", 5),
    ]
    with net_of(spark, changed) as net:
        merge(net, target, ("id",), txn, "merged")
    expected = {row for row in before if row[0] not in (1, 2)} | {(1, "changed", 2), (500, "new", None)}
    assert content(spark, target) == expected
    assert len(commits(target)) == 2
    assert_barrier(commits(target)[1], txn, "merged")
    assert any("deletionVector" in add for add in of_kind(commits(target)[1], "add"))

    spark.sql(f"DELETE FROM delta.`{target}` WHERE id = 500")
    assert "userMetadata" not in of_kind(commits(target)[2], "commitInfo")[0]
    assert not of_kind(commits(target)[2], "txn")


@pytest.mark.parametrize("gone", [31, 99])
def test_a_merge_does_not_open_files_without_its_keys(spark: SparkSession, target: str, gone: int) -> None:
    """The files that it must not need are gone: those before and after its keys, or between them."""
    firsts = {25, gone // 25 * 25}
    needed = {
        add["path"]
        for add in of_kind(commits(target)[0], "add")
        if json.loads(add["stats"])["minValues"]["id"] in firsts
    }
    assert len(needed) == len(firsts)
    for file in Path(target).glob("*.parquet"):
        if file.name not in needed:
            file.unlink()
    changed = [(30, "v30", 1, "update_preimage", 5), (30, "x", 1, "update_postimage", 5)]
    changed.append((gone, f"v{gone}", 1, "delete", 5))
    with net_of(spark, changed) as net:
        merge(net, target, ("id",), Txn("a", 1), "m")
    assert len(commits(target)) == 2


@pytest.mark.parametrize(
    ("vectors", "gone"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.soak),
        pytest.param(False, True, marks=pytest.mark.soak),
    ],
)
def test_a_merge_that_adds_a_key_of_the_target_commits_nothing(
    spark: SparkSession, target: str, vectors: bool, gone: bool
) -> None:
    spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES (delta.enableDeletionVectors = {str(vectors).lower()})")
    before, count = content(spark, target), len(commits(target))
    changed = [(1, "again", 1, "insert", 5), (500, "new", 1, "insert", 5), (2, "v2", 1, "delete", 5)]
    if gone:
        changed.append((1, "again", 1, "delete", 6))
    with net_of(spark, changed) as net, pytest.raises(KeyMet):
        merge(net, target, ("id",), Txn("a", 1), "m")
    assert content(spark, target) == before
    assert len(commits(target)) == count


def test_a_merge_does_not_take_new_columns(spark: SparkSession, target: str) -> None:
    schema = "id int, v string, n int, more int, _change_type string, _commit_version bigint"
    changes = changes_of(spark, [(1, "x", 1, 9, "insert", 5)], schema)
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net, pytest.raises(Exception, match="more"):
        merge(net, target, ("id",), Txn("a", 1), "m")
    assert len(commits(target)) == 1


def test_a_merge_with_odd_names_and_two_key_columns(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "odd")
    columns = "`a.b` int, `c d` string, `e``f` int"
    spark.sql(
        f"CREATE TABLE delta.`{target}` ({columns}) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    schema = f"{columns}, _change_type string, _commit_version bigint"
    first = changes_of(spark, [(1, "x", 1, "insert", 5), (1, "y", 2, "insert", 5)], schema)
    transform = transform_of(spark, first)
    with net_changes(first, transform, ("a.b", "c d")) as net:
        append(net.rows(), target, Txn("a", 1), "m")
    rows = [(1, "x", 1, "update_preimage", 6), (1, "x", 9, "update_postimage", 6), (1, "y", 2, "delete", 6)]
    second = changes_of(spark, [*rows, (2, "x", 3, "insert", 6)], schema)
    with net_changes(second, transform, ("a.b", "c d")) as net:
        merge(net, target, ("a.b", "c d"), Txn("a", 2), "m")
    assert content(spark, target) == {(1, "x", 9), (2, "x", 3)}


def test_rows_of_a_source_with_column_mapping_reach_a_target_without(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    spark.sql(
        f"CREATE TABLE delta.`{source}` (id INT, s STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (1, struct(2, array(struct('x'))))")
    files = SnapshotFiles(spark, source, 1)
    rows = files.read(range(len(files.files)))
    transform = parse(spark, rows.schema)
    DeltaTable.create(spark).location(target).addColumns(transform.schema).execute()
    append(transform.apply(rows), target, Txn("a", 1), "m")
    assert spark.read.format("delta").load(target).collect() == rows.collect()


def delta_transaction(spark: SparkSession, target: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, target)
    log.update(False, none, none)
    return log.startTransaction(none, none), jvm


def commit(transaction: Any, jvm: Any, *actions: Any) -> None:
    listed = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.List.of(*actions)).toSeq()
    manual = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    transaction.commit(listed, manual)


def one_row(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 1000 AS id, 'x' AS v, 1 AS n")


def test_who_lost_to_whom(spark: SparkSession, target: str) -> None:
    """Real conflicts, each made by committing between the start and the end of another transaction."""
    txn = Txn("build/0/0", 1)

    losing, jvm = delta_transaction(spark, target)
    losing.txnVersion(txn.app_id)
    append(one_row(spark), target, txn, "first")
    ours = jvm.org.apache.spark.sql.delta.actions.SetTransaction(txn.app_id, 1, jvm.scala.Option.empty())
    with pytest.raises((Py4JJavaError, PySparkException)) as raised:
        commit(losing, jvm, ours)
    assert conflict_of(raised.value) == "ConcurrentTransactionException"

    losing, jvm = delta_transaction(spark, target)
    spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES ('some' = 'thing')")
    with pytest.raises((Py4JJavaError, PySparkException)) as raised:
        commit(losing, jvm, ours)
    assert conflict_of(raised.value) == "MetadataChangedException"


def test_what_is_no_conflict(spark: SparkSession) -> None:
    assert conflict_of(ValueError("no")) is None
    with pytest.raises(Exception) as raised:
        spark.sql("SELECT nothing").collect()
    assert conflict_of(raised.value) is None


BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


def shuffled(spark: SparkSession) -> dict[int, int]:
    """The rows that each stage has shuffled."""
    jvm: Any = spark._jvm
    context = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    none, no_quantiles = jvm.java.util.ArrayList(), spark.sparkContext._gateway.new_array(jvm.double, 0)
    stages = context.statusStore().stageList(none, False, False, no_quantiles, none)
    return {
        one.stageId(): one.shuffleWriteRecords() for one in jvm.scala.jdk.javaapi.CollectionConverters.asJava(stages)
    }


@pytest.mark.parametrize("new", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_merge_of_few_changes_does_not_shuffle_the_target(
    spark: SparkSession, target: str, new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = [(key, f"v{key}", 1, "update_preimage", 5) for key in (1, 30, 60)]
    changed += [(key, "x", 1, "update_postimage", 5) for key in (1, 30, 60)]
    changed += [(99, "v99", 1, "delete", 5), *([(500, "new", 1, "insert", 5)] if new else [])]
    # The target is so small that Spark would broadcast it.
    monkeypatch.setattr(apply, "_KEPT", (*apply._KEPT, BROADCAST))
    rows = {}
    limits = (apply.BROADCAST_BYTES, 0)
    for most in limits:
        monkeypatch.setattr(apply, "BROADCAST_BYTES", most)
        copy = shutil.copytree(target, f"{target}-{most}")
        with settings_for(spark, {BROADCAST: "-1"}), net_of(spark, changed) as net:
            before = shuffled(spark)
            merge(net, str(copy), ("id",), Txn("a", 1), "m", narrowed=False)
        rows[most] = sum(count for stage, count in shuffled(spark).items() if stage not in before)
    one, other = (content(spark, f"{target}-{most}") for most in limits)
    assert one == other and len(one) == 99 + new
    few, many = (rows[most] for most in limits)
    assert many > 300 and few < (200 if new else 60), rows
