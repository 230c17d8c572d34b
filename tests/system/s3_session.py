"""Checks in one Spark session with S3A, as a program: the test's own session has no S3A. It fails with the first check.

``lake`` is a bucket of a good service. The service of ``deaf`` takes no notice of a write's condition; the answers to
new commits in ``losing`` are lost, S3A makes no write to ``old`` conditional, and requests to ``counted`` are counted.
In ``meeting``, the second write of ``twice`` meets another one (409), and each one of ``never`` and of a commit 1. The
first answer to each read of a file or range in ``breaking`` ends in its middle; an upload in parts is gone at its end.
``s3:`` has Delta's own log store, ``s3a:`` ours, and ``s3n:`` one that knows only commits.
"""

from __future__ import annotations

import sys
import uuid

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import SourceUnavailable, UnsafeCommitStore
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.hadoop_store import HadoopStore, driver_requests
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import Store
from airflow_backfill.spark.delta_internals import commit_nothing
from airflow_backfill.spark.preflight.two_writers import Trial, check_commits, commit_guarantee
from airflow_backfill.spark.run.application import session
from airflow_backfill.spark.session.failure import coded, conflict_of
from airflow_backfill.spark.session.s3_log_store import define
from tests.ledger.contract import CHECKS, refuses, what_is_missing_is_named
from tests.spark.build import Build
from tests.spark.history import Source, create

ONLY_COMMITS = """
package only_commits;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

public final class LogStore extends io.delta.storage.S3SingleDriverLogStore {
  public LogStore(Configuration conf) { super(conf); }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
    if (!overwrite.booleanValue() && path.getName().matches("[0-9]+.json")) {
      long version = Long.parseLong(path.getName().replace(".json", ""));
      String name = String.format("_delta_log/%020d.json", new Object[] {Long.valueOf(version - 1)});
      Path before = new Path(path.getParent().getParent(), name);
      if (version > 0 && !path.getFileSystem(conf).exists(before)) throw new FileSystemException("no commit " + before);
    }
    new airflow_backfill.S3LogStore(conf).write(path, actions, overwrite, conf);
  }
}
"""
"""Like Delta's S3DynamoDBLogStore, it takes each numbered file for a commit, and asks for the one before."""


def store(spark: SparkSession, bucket: str) -> Store:
    return open_store(f"s3a://{bucket}/{uuid.uuid4().hex}", spark=spark)


def the_contract_of_a_store(spark: SparkSession) -> None:
    for bucket in ("lake", "old"):
        for check in CHECKS:
            if check is not what_is_missing_is_named:  # the service cannot say that there is nothing below a file
                one = store(spark, bucket)
                assert isinstance(one, HadoopStore)
                check(one)


def a_good_store_is_good(spark: SparkSession) -> None:
    said = commit_guarantee(spark, "s3a://lake/good/target")
    assert said == "one of two writers won each of 21 races of airflow_backfill.S3LogStore", said
    for bucket in ("lake", "old"):
        check_commits(spark, f"s3a://{bucket}/good/target")
        assert not open_store(f"s3a://{bucket}/good/target.backfill", spark=spark).list("")


def deltas_own_log_store_is_refused(spark: SparkSession) -> None:
    for look in (commit_guarantee, check_commits):
        error = refuses(UnsafeCommitStore, lambda look=look: look(spark, "s3://lake/own/target"))
        assert "io.delta.storage.S3SingleDriverLogStore" in str(error) and "first and second succeeded" in str(error)


def a_service_without_conditions_is_refused(spark: SparkSession) -> None:
    error = refuses(UnsafeCommitStore, lambda: check_commits(spark, "s3a://deaf/target"))
    assert "first and second succeeded" in str(error)


def a_log_store_that_knows_only_commits_leaves_other_files_alone(spark: SparkSession) -> None:
    target = "s3n://lake/commits/target"
    assert Trial(spark, target).name == "only_commits.LogStore"
    check_commits(spark, target)
    control = ControlFolder.beside(target, spark)
    assert [control.draw_attempt({"task": "plan"}, floor=0).generation for _ in range(2)] == [1, 2]
    error = refuses(UnsafeCommitStore, lambda: check_commits(spark, "s3n://deaf/target"))
    assert "only_commits.LogStore was tried" in str(error)


def files_beside_a_target_need_a_service_with_conditions(spark: SparkSession) -> None:
    """Whatever keeps commits apart."""
    error = refuses(UnsafeCommitStore, Trial(spark, "s3n://deaf/target", beside=True).run)
    assert "airflow_backfill.S3LogStore was tried" in str(error) and "use another service" in str(error)


def a_lost_answer_is_a_lost_race_and_the_log_has_the_commit(spark: SparkSession) -> None:
    target = f"s3a://losing/{uuid.uuid4().hex}"
    spark.range(3).write.format("delta").save(target)
    try:
        commit_nothing(spark, target, "me", 1, "lost")
    except Exception as error:
        assert conflict_of(error) == "ConcurrentTransactionException", error
    else:
        raise AssertionError("no conflict")
    assert b'"lost"' in open_store(target, spark=spark).read(f"{LOG}/{commit_name(1)}", 10_000)


def a_write_that_meets_another_one_has_lost_the_race_or_is_repeated(spark: SparkSession) -> None:
    one = store(spark, "meeting")
    assert one.create("twice", b"one\n") is True and one.create("twice", b"other\n") is False
    assert "Status Code: 409" in str(refuses(SourceUnavailable, lambda: one.create("never", b"{}\n")))
    spark.range(3).write.format("delta").save(one.url)
    error = refuses(Py4JJavaError, lambda: commit_nothing(spark, one.url, "me", 1, "met"))
    assert isinstance(coded(error), SourceUnavailable) and "Status Code: 409" in str(coded(error))


def a_read_that_breaks_off_goes_on(spark: SparkSession) -> None:
    one, data = store(spark, "breaking"), b"0123456789abcde\n" * 50_000
    one.put("x", data)
    assert one.read("x", len(data)) == data and b"".join(one.chunks("x")) == data


def a_task_whose_read_breaks_off_is_repeated(spark: SparkSession) -> None:
    """S3A reads several ranges of a file at once, and none of them again."""
    files = f"{store(spark, 'breaking').url}/files"
    spark.range(100_000).write.parquet(files)
    rows = spark.read.schema("id BIGINT").parquet(files).selectExpr("sum(id)")
    error = refuses(Exception, rows.collect)
    assert isinstance(coded(error), SourceUnavailable) and "FAILED_READ_FILE" in str(coded(error)), error


def an_upload_that_is_gone_is_no_lost_history(spark: SparkSession) -> None:
    rows = spark.range(0, 1_000_000, 1, 1).selectExpr("rand(1) AS x")  # more than a part
    error = refuses(Exception, lambda: rows.write.parquet(f"{store(spark, 'breaking').url}/files"))
    assert isinstance(coded(error), SourceUnavailable) and "NoSuchUpload" in str(coded(error)), error


def a_listing_begins_where_it_is_told(spark: SparkSession) -> None:
    one = store(spark, "lake")
    for number in range(4):
        one.create(f"{LOG}/{commit_name(number)}", b"{}\n")
    assert list(one.list(LOG, after=commit_name(1))) == [commit_name(2), commit_name(3)]
    assert list(one.list(LOG, after=f"{2:020}")) == [commit_name(2), commit_name(3)]
    assert list(one.list("nowhere", after="a")) == []


def a_commit_in_several_parts_has_the_condition_too(spark: SparkSession) -> None:
    one, large = store(spark, "lake"), b"0123456789abcde\n" * 400_000  # parts have 5 MiB
    assert one.create("x", large) is True
    assert one.create("x", b"-" + large) is False
    assert one.read("x", 1) == b"0" and sum(map(len, one.chunks("x"))) == len(large)


def a_commit_needs_the_one_before(spark: SparkSession) -> None:
    """An attempt writes it after its target was dropped. A checkpoint says that the one before was there, too."""
    jvm, conf = spark.sparkContext._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    one = store(spark, "lake")

    def write(version: int) -> None:
        path = jvm.org.apache.hadoop.fs.Path(f"{one.url}/{LOG}/{commit_name(version)}")
        jvm.airflow_backfill.S3LogStore(conf).write(path, jvm.java.util.List.of("{}").iterator(), False, conf)

    assert "No such folder" in str(refuses(Py4JJavaError, lambda: write(3)))
    for version in (0, 1):
        write(version)
    assert "No commit before" in str(refuses(Py4JJavaError, lambda: write(3)))
    one.create(f"{LOG}/{2:020}.checkpoint.parquet", b"")
    write(3)
    assert list(one.list(LOG)) == [*map(commit_name, (0, 1)), f"{2:020}.checkpoint.parquet", commit_name(3)]


def half_a_commit_is_never_seen(spark: SparkSession) -> None:
    jvm, conf = spark.sparkContext._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    for bucket in ("lake", "old"):
        path = jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/{uuid.uuid4().hex}/half")
        lines = jvm.java.util.List.of("a line", 1)
        write = jvm.airflow_backfill.S3LogStore(conf).write
        refuses(Py4JJavaError, lambda write=write, path=path, lines=lines: write(path, lines.iterator(), False, conf))
        assert not path.getFileSystem(conf).exists(path)


def requests_are_counted(spark: SparkSession) -> None:
    """Of this store, of Delta and of Spark's tasks here. The test compares them with what the service was asked."""
    before = driver_requests()
    one = store(spark, "counted")
    one.create("x", b"{}\n")
    spark.range(100).write.format("delta").save(f"{one.url}/table")
    print("requests:", driver_requests() - before, flush=True)


def a_plan_and_its_snapshot(spark: SparkSession) -> None:
    place = f"s3a://lake/{uuid.uuid4().hex}"
    source = Source(spark, f"{place}/source", ("id", "part", "name", "n"))
    create(source)
    build = Build(source, f"{place}/target")
    build.plan()
    assert "one of two writers won each of" in build.report["commit_guarantee"]
    build.snapshot()
    build.assert_equal_in_spark(1)


ALL = (
    the_contract_of_a_store,
    a_good_store_is_good,
    deltas_own_log_store_is_refused,
    a_service_without_conditions_is_refused,
    a_log_store_that_knows_only_commits_leaves_other_files_alone,
    files_beside_a_target_need_a_service_with_conditions,
    a_lost_answer_is_a_lost_race_and_the_log_has_the_commit,
    a_write_that_meets_another_one_has_lost_the_race_or_is_repeated,
    a_read_that_breaks_off_goes_on,
    a_task_whose_read_breaks_off_is_repeated,
    an_upload_that_is_gone_is_no_lost_history,
    a_listing_begins_where_it_is_told,
    a_commit_in_several_parts_has_the_condition_too,
    a_commit_needs_the_one_before,
    half_a_commit_is_never_seen,
    requests_are_counted,
    a_plan_and_its_snapshot,
)

if __name__ == "__main__":
    one = session()
    define(one, ONLY_COMMITS)
    for each in ALL:
        each(one)
        print(each.__name__, "holds", flush=True)
    sys.stdout.flush()
    one.stop()
