"""What becomes of the errors of Spark and Delta: a code, a first line that names them, and whether to try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import TargetBusy
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.run.application import attempted
from airflow_backfill.spark.run.planner import OnExisting
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.redaction import REDACT
from tests.spark.build import Build
from tests.spark.history import Source, clean_up_log

pytestmark = pytest.mark.spark


def failed(task: Callable[[], BuildState]) -> dict[str, Any]:
    """The outcome of a task that has to fail for good."""
    outcome = attempted(lambda: {"phase": task().phase})
    assert outcome["code"] != "OK" and not outcome["retry"], outcome
    assert "An error occurred while calling" not in outcome["message"] and "\n" not in outcome["message"]
    return outcome


def test_an_expression_that_cannot_take_a_row_fails_for_good_and_a_mended_one_goes_on(
    source: Source, tmp_path: Path
) -> None:
    for wrong, said in (("CAST(name AS INT)", "CAST_INVALID_INPUT"), ("CAST(9999999999 + id AS INT)", "CAST_OVERFLOW")):
        error = coded(raised(source.at(source.head).selectExpr(wrong).collect))
        assert (error.code, error.retry) == ("EXPRESSION_FAILED", False)
        assert error.message.startswith(f"{said}: The value")
    build = Build(source, tmp_path / "target", select=["id", "1 / (n - n) AS x"])
    build.plan()
    outcome = failed(build.snapshot)
    assert outcome["code"] == "EXPRESSION_FAILED"
    assert outcome["message"].startswith("DIVIDE_BY_ZERO: Division by zero.")
    assert "on_existing='restart'" in outcome["message"]
    mended = Build(source, tmp_path / "target", select=["id", "name"])
    mended._generation = build._generation
    mended.plan(OnExisting.RESTART)
    assert mended.snapshot().sealed


@contextmanager
def rule(build: Build, make: str, drop: str) -> Iterator[None]:
    """A rule of the target's own while the block lasts."""
    for n, statement in enumerate((make, drop)):
        build.spark.sql(f"ALTER TABLE delta.`{build.target}` {statement}")
        if n == 0:
            yield


def test_a_constraint_of_the_target_stops_its_follower_for_good_and_without_it_the_task_goes_on(
    source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.hand_off()
    source.append(5000, 5001)
    with rule(build, "ADD CONSTRAINT small CHECK (id < 5000)", "DROP CONSTRAINT small"):
        outcome = failed(build.upstream)
        assert outcome["code"] == "TARGET_REFUSES"
        assert outcome["message"].startswith("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES: CHECK constraint small (id < 5000)")
    build.upstream()
    build.assert_equal_at(source.head)
    append_only = "SET TBLPROPERTIES (delta.appendOnly = {})"
    with rule(build, append_only.format("true"), append_only.format("false")):
        error = coded(raised(lambda: build.spark.sql(f"DELETE FROM delta.`{build.target}`")))
    assert (error.code, error.retry) == ("TARGET_REFUSES", False)
    assert error.message.startswith("DELTA_CANNOT_MODIFY_APPEND_ONLY: ")


def test_a_file_that_is_cut_short_fails_for_good_and_once_restored_the_task_goes_on(
    source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.plan()
    data = next(Path(source.path).rglob("part-*.parquet"))
    data.with_name(f".{data.name}.crc").unlink()
    whole = data.read_bytes()
    data.write_bytes(whole[:50])
    outcome = failed(build.snapshot)
    assert outcome["code"] == "FILE_DAMAGED" and data.name in outcome["data"]["file"]
    assert outcome["message"].startswith(outcome["data"]["file"]) and "restore the file" in outcome["message"]
    data.write_bytes(whole)
    assert build.snapshot().sealed


def test_a_commit_that_is_cut_short_is_no_expression_that_fails(source: Source) -> None:
    commit = Path(source.path, "_delta_log", commit_name(source.head))
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    commit.write_bytes(commit.read_bytes()[:-50])
    error = coded(raised(source.at(source.head).collect))
    assert (error.code, error.retry) == ("FILE_DAMAGED", False)
    assert commit.name in error.data["file"] and "on a row" not in error.message


def raised(work: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


@pytest.mark.parametrize(
    ("trouble", "code", "said"),
    [
        (lambda spark: open_store("zzz://bucket/x", spark=spark), "SPARK_INCOMPLETE", 'No FileSystem for scheme "zzz"'),
        (lambda spark: open_store("s3a://bucket/x", spark=spark), "SPARK_INCOMPLETE", "S3AFileSystem not found"),
        (
            lambda spark: open_store("s3a://bucket/x", spark=spark),
            "SPARK_INCOMPLETE",
            "apache.hadoop:hadoop-aws:3",
        ),
        (lambda spark: open_store("abfss://c@a.net/", spark=spark), "SPARK_INCOMPLETE", "apache.hadoop:hadoop-azure:3"),
        (
            lambda spark: open_store("gs://bucket/x", spark=spark),
            "SPARK_INCOMPLETE",
            "apache.hadoop:hadoop-gcp:3",
        ),
        (lambda spark: spark.read.format("zzz").load(), "SPARK_INCOMPLETE", "DATA_SOURCE_NOT_FOUND: "),
        (lambda spark: spark._jvm.no.such.Class(), "SPARK_INCOMPLETE", "JavaPackage"),
        (lambda spark: __import__("no_such_package"), "SPARK_INCOMPLETE", "no_such_package"),
        (lambda spark: spark.range(1).select("nope"), "QUERY_REFUSED", "UNRESOLVED_COLUMN.WITH_SUGGESTION: A column"),
    ],
    ids=["scheme", "store's jar", "coordinates", "of Azure", "of Google", "format's jar", "class", "package", "column"],
)
def test_what_would_fail_again_fails_for_good(spark: SparkSession, trouble: Any, code: str, said: str) -> None:
    error = coded(raised(lambda: trouble(spark)))
    assert (error.code, error.retry) == (code, False)
    assert said in error.message and "clear the task" in error.message


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AccessDeniedException", "s3a://lake/t/part-0.parquet: getFileStatus: (Service: S3, Status Code: 403)"),
        ("AccessControlException", 'Permission denied: user=spark, access=WRITE, inode="/lake/t"'),
        ("FileNotFoundException", "/lake/t/part-0.parquet (Permission denied)"),
    ],
)
def test_a_right_that_is_missing_is_no_fault_of_the_data(kind: str, text: str) -> None:
    """A round that is tried again goes on once the right is there."""
    named = SimpleNamespace(getName=lambda: f"java.io.{kind}", getSimpleName=lambda: kind)
    error: Any = RuntimeError("FAILED_READ_FILE.NO_HINT")
    error.java_exception = SimpleNamespace(getClass=lambda: named, getMessage=lambda: text, getCause=lambda: None)
    found = coded(error)
    assert (found.code, found.retry) == ("SOURCE_UNAVAILABLE", True)
    assert "refuses a request" in found.message and text in found.message


def test_a_folder_that_the_store_does_not_let_delta_make_is_no_refused_query(spark: SparkSession) -> None:
    rows = spark.range(1).write.format("delta")
    error = coded(raised(lambda: rows.save("/proc/no/table")))
    assert (error.code, error.retry) == ("SOURCE_UNAVAILABLE", True)
    assert "DELTA_CANNOT_CREATE_LOG_PATH" in error.message and "changed since the plan" not in error.message


def test_a_file_of_spark_that_is_gone_is_no_lost_history(spark: SparkSession, tmp_path: Path) -> None:
    """A tool that empties /tmp deletes them while Spark runs."""
    path = "/blockmgr-295eb075-27bd-46e7-9454-147a2724d934/04/temp_shuffle_5e7ec689"
    java: Any = spark.sparkContext._jvm
    file = java.java.io.File(f"{tmp_path}{path}")
    for read in (
        lambda: java.java.io.FileInputStream(file),
        lambda: java.java.nio.file.Files.readString(file.toPath()),
    ):
        error = coded(raised(read))
        assert (error.code, error.retry) == ("APPLICATION_FAILED", True)
        assert path in error.message and "spark.local.dir" in error.message


def test_values_of_rows_can_be_hidden(spark: SparkSession) -> None:
    def wrong() -> None:
        spark.sql("SELECT CAST(name AS INT) FROM VALUES ('geheim') AS t(name)").collect()

    assert "geheim" in coded(raised(wrong)).message
    spark.conf.set(REDACT, "true")
    try:
        error = coded(raised(wrong))
    finally:
        spark.conf.unset(REDACT)
    assert error.code == "EXPRESSION_FAILED" and "geheim" not in str(error.to_json())
    assert error.message.startswith("CAST_INVALID_INPUT; ")


@pytest.mark.parametrize("read", ["its files", "all of it"])
def test_a_version_that_the_log_does_not_reach_any_more_is_history_lost(source: Source, read: str) -> None:
    epoch = source.head
    source.append(7000, 7010)
    clean_up_log(source.spark, source.path)
    work = source.at if read == "all of it" else lambda v: SnapshotFiles(source.spark, source.path, v).files
    error = coded(raised(lambda: work(epoch)))
    assert (error.code, error.retry) == ("HISTORY_LOST", False) and "cleaned up further" in error.message


def test_a_log_of_which_only_a_checkpoint_is_left_is_history_lost(source: Source) -> None:
    epoch = source.head
    clean_up_log(source.spark, source.path)
    for commit in Path(source.path, "_delta_log").glob("*.json"):
        commit.unlink()
    error = coded(raised(lambda: source.at(epoch)))
    assert (error.code, error.retry) == ("HISTORY_LOST", False) and "cleaned up further" in error.message


def test_what_is_not_known_is_tried_again_under_the_innermost_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.udf.register("trouble", _trouble)
    rows = spark.range(3).selectExpr("trouble(id) AS x").write.format("delta")
    error = coded(raised(lambda: rows.save(str(tmp_path / "table"))))
    assert error.code == "APPLICATION_FAILED" and error.retry
    assert error.message.startswith("PYTHON_EXCEPTION: An exception was thrown from the Python worker")
    assert coded(KeyError("x")).message == "KeyError: 'x'"
    busy = TargetBusy("another writer has it")
    assert coded(busy) is busy


def _trouble(value: int) -> str:
    raise OSError(f"no answer to {value}")
