"""A small TPC-H source that a writer keeps changing, and the two oracles of what its target must hold."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.run.planner import OnExisting, Planner
from demo import fold, journal, load, tpch
from tests.system.applications import ROOT
from tests.waiting import until

SCALE = 0.01
KEY = ["o_orderkey"]
SELECT = ["o_orderkey", "upper(o_orderstatus) AS status", "o_totalprice * 2 AS double_price", "o_comment"]
WHERE = "o_totalprice > 30000"


def plain(row: dict[str, Any]) -> dict[str, Any] | None:
    """The same transform in plain Python."""
    if row["o_totalprice"] <= 30000:
        return None
    return {
        "o_orderkey": row["o_orderkey"],
        "status": row["o_orderstatus"].upper(),
        "double_price": row["o_totalprice"] * 2,
        "o_comment": row["o_comment"],
    }


class Workload:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.raw, self.tables, self.journal = folder / "raw", folder / "tables", folder / "journal.jsonl"
        tpch.make(self.raw, SCALE)
        load.load(spark, self.raw, self.tables)

    @property
    def source(self) -> str:
        return str(self.tables / "orders")

    def spec(self, target: str, **more: str) -> str:
        """What a plan is told."""
        tables = {"source": self.source, "target": target}
        return json.dumps({"name": "orders", **tables, "key": KEY, "select": SELECT, "where": WHERE, **more})

    def plan(self, target: str) -> BuildState:
        """The build, planned without an application of its own."""
        spec = BackfillSpec.parse(json.loads(self.spec(target)))
        state, _ = Planner(self.spark, spec, 1, Attempt(1, "plan"), RoundSize()).plan(OnExisting.RESUME)
        return state

    @contextmanager
    def writer(self, rate: float = 1.0) -> Iterator[None]:
        """The writer at work, from before the first statement until after the last."""
        command = [sys.executable, "-m", "demo.writer", str(self.raw), str(self.tables), str(self.journal)]
        command += ["--table", "orders", "--rate", str(rate), "--optimize-after", "10"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            drain = Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
            drain.start()
            try:
                yield
                assert process.poll() is None, "the writer ended early: " + "".join(lines)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=60)
                drain.join()
        assert process.returncode == 0, "".join(lines)

    def wait_for_epochs(self, after: int, count: int) -> None:
        """Until the writer has committed so many epochs after ``after``."""
        log = DeltaLog(open_store(self.source))
        until(lambda: log.head() >= after + count, 300)

    def recomputed(self, epoch: int) -> DataFrame:
        """Oracle 1: the transform over the source as of the epoch, by Spark alone."""
        rows = self.spark.read.format("delta").option("versionAsOf", epoch).load(self.source)
        return rows.where(WHERE).selectExpr(*SELECT)

    def folded(self, epoch: int) -> Iterator[dict[str, Any]]:
        """Oracle 2: the first rows and the writer's own journal, in plain Python."""
        entries = list(journal.resolved(journal.read(self.journal), self.tables))
        initial = tpch.rows(self.raw, tpch.TABLES["orders"])
        return fold.fold(initial, entries, "orders", KEY, epoch)

    def check(self, target: str, epoch: int, version: int) -> None:
        """The target's version is what both oracles say for the epoch."""
        rows = self.spark.read.format("delta").option("versionAsOf", version).load(target)
        recomputed = self.recomputed(epoch)
        assert rows.exceptAll(recomputed).isEmpty(), "rows that should not be there"
        assert recomputed.exceptAll(rows).isEmpty(), "rows that are missing"
        actual = (row.asDict() for row in rows.collect())
        difference = fold.compare(self.folded(epoch), actual, KEY, plain)
        assert difference.equal, str(difference)
