"""An attempt that lives is seen to live, by who reads beside its target."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.run.sign_of_life import signs_of_life
from airflow_backfill.spark.session.cost import Costs
from airflow_backfill.spark.session.queries import queries
from tests import waiting
from tests.ledger.moto_s3 import moto_s3
from tests.system.s3 import S3, gate


def until(control: ControlFolder, me: Any, later: int) -> dict[str, Any]:
    """The announcement with a sign that was given after this time."""
    ends = time.monotonic() + 20
    while (found := control.announced(me) or {}).get("alive", 0) <= later:
        assert time.monotonic() < ends, found
    return found


def test_the_announcement_is_renewed_until_the_end(tmp_path: Path) -> None:
    control = ControlFolder.beside(str(tmp_path / "target"))
    me = control.draw_attempt({}, floor=0)
    with signs_of_life(control, me, {"ui": "http://spark:4040"}, every=0.05):
        begun = control.announced(me)
        assert begun is not None
        first = until(control, me, 0)
        last = until(control, me, first["alive"])
    assert (last["ui"], last["at"]) == ("http://spark:4040", begun["at"])
    assert "table-backfill-sign-of-life" not in {thread.name for thread in threading.enumerate()}


def test_the_log_says_that_the_store_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    with moto_s3("bucket") as options, gate(S3(options["aws_endpoint"])) as way:
        control = ControlFolder.beside("s3a://bucket/target", options={**options, "aws_endpoint": way.endpoint})
        me = control.draw_attempt({}, floor=0)
        with signs_of_life(control, me, {}, every=0.05):
            way.holds = lambda method, path: True
            try:
                waiting.until(lambda: "the target's store has not answered for" in caplog.text, 20)
            finally:
                way.holds = lambda method, path: False
            until(control, me, 0)


def test_the_cost_is_told_until_the_end(tmp_path: Path) -> None:
    control = ControlFolder.beside(str(tmp_path / "target"))
    me = control.draw_attempt({"task": "snapshot"}, floor=0)
    spent = iter(range(1, 1_000_000))
    with signs_of_life(control, me, {}, every=0.05, cost=lambda: {"core_seconds": next(spent)}):
        until(control, me, 0)
    (found,) = attempts(control, None, 0, 1).statuses
    assert found.cost == {"core_seconds": next(spent) - 1}, "a last sign"


@pytest.mark.spark
def test_spark_counts_what_an_application_costs(spark: SparkSession, tmp_path: Path) -> None:
    path, costs, at_the_end = tmp_path / "rows", Costs(spark), Costs(spark)
    begun = costs.so_far()
    assert at_the_end.so_far()["written_bytes"] == begun["written_bytes"]
    spark.range(100_000).write.parquet(str(path))
    told_later(costs)
    before = costs.so_far()
    spark.read.parquet(str(path)).groupBy("id").count().count()
    after = costs.so_far()
    assert all(after[name] > before[name] for name in ("core_seconds", "shuffled_bytes"))
    files = sum(file.stat().st_size for file in path.glob("*.parquet"))
    assert told_later(costs) - before["read_bytes"] == pytest.approx(files, rel=0.03)
    assert before["written_bytes"] - begun["written_bytes"] == files == after["written_bytes"] - begun["written_bytes"]
    assert at_the_end.so_far()["written_bytes"] == after["written_bytes"], "all at once, or in between"


@pytest.mark.spark
def test_files_that_a_query_opens_are_counted_once_however_long_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    costs = Costs(spark)
    begun, paths = told_later(costs), [str(tmp_path / str(n)) for n in range(2)]
    for path in paths:
        spark.range(50_000).selectExpr("id", "sha2(string(id), 256) AS text").write.parquet(path)
    slow = slow_query(spark.read.parquet(paths[0]).limit(1))
    sizes = [sum(file.stat().st_size for file in Path(path).glob("*.parquet")) for path in paths]
    for n in range(1, 3):
        spark.read.parquet(paths[1]).selectExpr("max(text)").collect()  # one of two columns, all of the file
        assert told_later(costs) - begun == pytest.approx(n * sizes[1], rel=0.03)
    assert slow.is_alive()
    slow.join()
    assert told_later(costs) - begun == pytest.approx(2 * sizes[1] + sizes[0], rel=0.03)
    assert told_later(costs) == told_later(costs)


def slow_query(one_row: DataFrame) -> threading.Thread:
    """Three seconds of a thread in which a query of this row runs. It has a stage already."""
    waits = one_row.selectExpr("java_method('java.lang.Thread', 'sleep', id * 0 + 3000L)")
    slow = threading.Thread(target=waits.collect)
    slow.start()
    active = one_row.sparkSession.sparkContext.statusTracker().getActiveStageIds
    while not active():
        assert slow.is_alive()
    return slow


def told_later(costs: Costs) -> float:
    """Bytes read, once Spark has counted all queries that have ended: another thread of it does so a moment later."""
    costs._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    ended = [query for _, query in queries(costs._spark, 0, without=()) if query.completionTime().isDefined()]
    while any(query.metricValues() is None for query in ended):
        store = costs._spark._jsparkSession.sharedState().statusStore()
        ended = [store.execution(query.executionId()).get() for query in ended]
    return costs.so_far()["read_bytes"]


@pytest.mark.spark
def test_what_a_stage_that_runs_writes_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spark numbers stages when their job begins, so later ones end earlier."""
    costs = Costs(spark)
    begun = costs.so_far()["written_bytes"]
    slow = slow_query(spark.range(1))
    for n in range(3):
        spark.range(1000).write.parquet(str(tmp_path / str(n)))
        files = sum(file.stat().st_size for file in tmp_path.glob("*/*.parquet"))
        assert costs.so_far()["written_bytes"] - begun == files
    slow.join()
    assert costs.so_far()["written_bytes"] - begun == files


def test_a_store_that_fails_for_a_while_stops_neither_work_nor_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = ControlFolder.beside(str(tmp_path / "target"))
    me = control.draw_attempt({}, floor=0)
    announce, fails = control.announce, iter([None, SourceUnavailable("no answer"), SourceUnavailable("no answer")])

    def failing(*said: Any) -> None:
        if (error := next(fails, None)) is not None:
            raise error
        announce(*said)

    monkeypatch.setattr(control, "announce", failing)
    with signs_of_life(control, me, {}, every=0.05):
        until(control, me, 0)
