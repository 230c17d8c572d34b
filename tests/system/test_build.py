"""A whole build while the source keeps changing, killed in every phase: the retry goes on, and the end is
equal.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import TargetDiverged
from airflow_backfill.core.record import barrier_record
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications, table_backfill
from tests.system.workload import KEY, SELECT, WHERE, Workload

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LAG = ("--max-lag-epochs", "60")


@pytest.fixture(scope="module")
def workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return Workload(spark, tmp_path_factory.mktemp("workload"))


def test_a_build_survives_a_kill_in_every_phase(workload: Workload, tmp_path: Path) -> None:
    target, events = str(tmp_path / "target"), tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
    }
    apps = Applications(target, conf)
    spec = {
        "name": "orders",
        "source": workload.source,
        "target": target,
        "key": KEY,
        "select": SELECT,
        "where": WHERE,
    }
    plan = ("--spec", json.dumps(spec))
    small = ("--round-rows", "2000")
    with workload.writer():
        assert apps.run("plan", *plan, crash="before_commit:1:group") is None
        planned = apps.result("plan", *plan)
        assert apps.run("snapshot", *small, crash="after_commit:3:python") is None
        killed = BuildReader(target).state()
        snapshot = apps.result("snapshot", *small)
        workload.wait_for_epochs(planned["snapshot_epoch"], 80)
        assert apps.run("consume_log", *LAG, crash="before_apply:1:group") is None
        consumed = apps.result("consume_log", *LAG)
        assert apps.run("catch_up", *LAG, crash="before_commit:2:python") is None
        caught_up = apps.result("catch_up", *LAG)
        assert apps.run("verify", crash="before_verify:1:group") is None
        verified = apps.result("verify")
        assert apps.run("finish", crash="after_commit:1:group") is None
        finished = apps.result("finish")
        assert apps.run("upstream", crash="before_commit:2:group") is None
        followed = apps.result("upstream")

    assert planned["snapshot_epoch"] == snapshot["snapshot_epoch"]
    assert snapshot["read"]["done"] == snapshot["read"]["of"] > 2
    assert consumed["phase"] == "consume_log"
    assert caught_up["epoch"] == caught_up["handoff"] == verified["certificate"]["epoch"]
    assert finished["phase"] == "finished"
    assert followed["phase"] == "upstream" and followed["epoch"] > finished["epoch"]
    workload.check(target, finished["epoch"], finished["target_version"])
    workload.check(target, followed["epoch"], followed["target_version"])
    _each_epoch_once(target, planned["snapshot_epoch"], followed["epoch"])
    done_before_kill = killed.totals.snapshot_files
    assert 0 < done_before_kill < snapshot["read"]["of"]
    _no_file_read_again(events, target, done_before_kill)
    _recovered(workload.spark, apps, target, followed["epoch"])


def _recovered(spark: SparkSession, apps: Applications, target: str, epoch: int) -> None:
    """Somebody deletes rows; the command line brings them back, and a proof makes the build go on."""
    spark.sql(f"DELETE FROM delta.`{target}` WHERE o_orderkey < 1000")
    with pytest.raises(TargetDiverged):
        BuildReader(target).state()
    table_backfill("recover", target, "--epoch", str(epoch), conf=apps.confs())
    table_backfill("repair", target, conf=apps.confs())
    assert apps.result("verify", "--then", "finish")["phase"] == "finished"


def _each_epoch_once(target: str, pinned: int, last: int) -> None:
    applied: Counter[int] = Counter()
    for commit in BuildReader(target).log.newest_first():
        record = barrier_record(commit)
        if record is not None and record.epochs is not None and commit.version:
            applied.update(range(record.epochs.start, record.epochs.stop))
    assert set(applied) == set(range(pinned + 1, last + 1))
    assert set(applied.values()) == {1}


def _no_file_read_again(events: Path, target: str, done: int) -> None:
    """Spark's own metrics: the retry of the snapshot read the rows of the files that were left, and no other."""
    plan = BuildReader(target).state().plan
    logs = sorted(events.iterdir(), key=lambda path: path.stat().st_mtime)
    snapshots = [path for path in logs if _name(path) == "snapshot"]
    assert len(snapshots) == 2
    read = [_records_read(path) for path in snapshots]
    files = pa.table(DeltaTable(plan.spec.source, version=plan.source.epoch).get_add_actions(flatten=True))
    counts = dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))
    rows = [counts[path] for path in sorted(counts)]
    assert read[1] == sum(rows[done:]) < plan.splits.rows


def _name(path: Path) -> str:
    for event in _events(path):
        if event["Event"] == "SparkListenerApplicationStart":
            return str(event["App Name"])
    return ""


def _records_read(path: Path) -> int:
    """Rows that scans of data files put out; scans of a log's own files, as their plans name them, are left out."""
    events, counters = _events(path), set[int]()
    for event in events:
        counters |= _counters(event["sparkPlanInfo"]) if "sparkPlanInfo" in event else set()
    tasks = (event["Task Info"] for event in events if event["Event"] == "SparkListenerTaskEnd")
    counts = (count for task in tasks for count in task.get("Accumulables", ()) if count["ID"] in counters)
    return sum(int(count.get("Update") or 0) for count in counts)


def _counters(plan: dict[str, Any]) -> set[int]:
    """The counters of output rows of all scans of data files in a query."""
    data = plan["nodeName"].startswith("Scan parquet") and "DeltaLogFileIndex" not in plan["metadata"]["Location"]
    own = {m["accumulatorId"] for m in plan["metrics"] if data and m["name"] == "number of output rows"}
    return own.union(*(_counters(child) for child in plan["children"]))


def _events(path: Path) -> list[dict]:
    lines = [line for file in sorted(path.rglob("events_*")) for line in file.read_text().splitlines()]
    # A killed application may have cut its last line.
    return [json.loads(line) for line in lines if line.endswith("}")]
