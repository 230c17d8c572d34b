"""A whole build while the source keeps changing, killed again and again: the retry goes on, and the end is equal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import TargetDiverged
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from tests.system import event_log
from tests.system.applications import Applications, all_phases, table_backfill
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LAG = ("--max-lag-epochs", "60")


def test_a_build_goes_on_after_a_kill(workload: Workload, tmp_path: Path) -> None:
    """Killed in the snapshot; the next application goes on with the files and the phases that are left."""
    target = str(tmp_path / "target")
    apps = Applications(target)
    phases = ("--round-rows", "2000", *all_phases(lag_epochs=60))
    with workload.writer(rate=2.0):
        plan = workload.plan(target).plan
        pinned = plan.source.epoch
        assert apps.run("snapshot", *phases, crash="after_commit:3:python") is None
        killed = BuildReader(target).state()
        assert killed.phase is Phase.SNAPSHOT and 0 < killed.totals.snapshot_files < plan.splits.data_files
        workload.wait_for_epochs(pinned, 10)
        finished = apps.result("snapshot", *phases)

    assert finished["phase"] == "finished" and finished["epoch"] >= pinned + 10
    cost = finished["cost"]
    assert min(cost[f"{name}_bytes"] for name in ("read", "written", "shuffled")) > 0
    assert cost["attempts"] == len(BuildReader(target).control.attempts())
    assert cost["uncounted"] <= 1, "it was killed, perhaps before its first sign of life"
    assert BuildReader(target).state().totals.snapshot_files == plan.splits.data_files, "each is read once"
    workload.check(target, finished["epoch"], finished["target_version"])
    _each_epoch_once(target, pinned, finished["epoch"])


@pytest.mark.soak
def test_an_application_of_all_phases_is_killed_between_any_two(workload: Workload, tmp_path: Path) -> None:
    """Each next one finds the phases before it committed, whichever task of Airflow's it belongs to."""
    target = str(tmp_path / "target")
    apps = Applications(target)
    then = all_phases(lag_epochs=60)
    with workload.writer(rate=2.0):
        pinned = workload.plan(target).plan.source.epoch
        for nth, phase in enumerate((Phase.SNAPSHOT, Phase.CONSUME_LOG, Phase.CATCH_UP, Phase.CATCH_UP), 1):
            assert apps.run("snapshot", *then, crash=f"before_phase:{nth}:group") is None
            killed = BuildReader(target).state()
            assert (killed.phase, killed.sealed) == (phase, True), nth
            assert (killed.certificate is not None) == (nth == 4)
        finished = apps.result("snapshot", *then)
    assert finished["phase"] == "finished" and finished["certificate"]["epoch"] == finished["epoch"]
    workload.check(target, finished["epoch"], finished["target_version"])
    _each_epoch_once(target, pinned, finished["epoch"])


@pytest.mark.soak
def test_a_build_survives_a_kill_in_every_phase(workload: Workload, tmp_path: Path) -> None:
    target, events = str(tmp_path / "target"), tmp_path / "events"
    apps = Applications(target, event_log.confs(events))
    plan = ("--spec", workload.spec(target))
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
    table_backfill("recover", target, "--epoch", str(epoch), "--why", "a test", conf=apps.confs())
    table_backfill("repair", target, "--why", "a test", conf=apps.confs())
    assert apps.result("verify", "--then", "finish")["phase"] == "finished"
    table_backfill("prove", target, conf=apps.confs())


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
    _, retry, *_ = event_log.logs(events, "snapshot")
    files = pa.table(DeltaTable(plan.spec.source, version=plan.source.epoch).get_add_actions(flatten=True))
    counts = dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))
    rows = [counts[path] for path in sorted(counts)]
    assert event_log.rows(retry, _data) == sum(rows[done:]) < plan.splits.rows


def _data(node: event_log.Node) -> bool:
    """Whether an operator scans data files; scans of a log's own files, as their plans name them, are left out."""
    return node["nodeName"].startswith("Scan parquet") and "DeltaLogFileIndex" not in node["metadata"]["Location"]
