"""The tables of the benchmarks: sources, created once and kept, and a fresh copy of each table that a run changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from demo import load, tpch

ROOT = Path(__file__).parents[1]
STATEMENTS = {
    "delete": "DELETE FROM {table} WHERE o_orderkey % 600 = {epoch}",
    "merge": """
        MERGE INTO {table} AS t USING (
            WITH some AS (SELECT *, o_orderkey DIV 600 % 10 AS n FROM {table} WHERE o_orderkey % 600 = {epoch})
            SELECT o_orderkey AS key, n = 0 AS goes, * FROM some
            UNION ALL SELECT -1L AS key, false AS goes, o_orderkey + 1000000000 AS o_orderkey, * EXCEPT (o_orderkey)
            FROM some WHERE n = 1
        ) AS s ON t.o_orderkey = s.key
        WHEN MATCHED AND s.goes THEN DELETE
        WHEN MATCHED THEN UPDATE SET o_totalprice = s.o_totalprice + 1
        WHEN NOT MATCHED THEN INSERT *
    """,
}
"""The change of an epoch, by its name."""


class Tables:
    """Sources and targets below one folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self.folder = spark, folder

    def source(self, table: str, scale: float) -> str:
        """A TPC-H table at this scale, as a Delta table with a change feed."""
        raw, tables = self.folder / f"raw-{scale}", self.folder / f"tables-{scale}"
        path = tables / table
        if not (path / "_delta_log").is_dir():
            tpch.make(raw, scale)
            load.load(self._spark, raw, tables)
        return str(path)

    def changed_copy(self, table: str, scale: float, epochs: int, size: int) -> str:
        """A copy of the source with ``epochs`` small commits of a writer, each of ``size`` orders."""
        self.source(table, scale)
        tables = self.folder / f"changed-{table}-{scale}-{epochs}-{size}"
        path = tables / table
        if not path.is_dir():
            shutil.copytree(self.folder / f"tables-{scale}", tables)
            raw, journal = self.folder / f"raw-{scale}", tables / "journal.jsonl"
            command = [sys.executable, "-m", "demo.writer", str(raw), str(tables), str(journal)]
            command += ["--table", table, "--rate", "1000", "--commits", str(epochs)]
            command += ["--size", str(size), "--optimize-after", "0"]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return str(path)

    def history(self, epochs: int, change: str) -> str:
        """A copy of TPC-H's orders, written in version 0, and ``epochs`` versions after it. ``change`` "merge": each
        raises the price of one order in 600, but deletes every tenth of those, and inserts every tenth under a new key.
        "delete": each deletes as many, by deletion vectors.
        """
        return self.changed(
            f"{change}-{epochs}",
            1.0,
            epochs,
            lambda table, epoch: self._spark.sql(STATEMENTS[change].format(table=table, epoch=epoch)),
        )

    def changed(self, name: str, scale: float, epochs: int, change: Callable[[str, int], object]) -> str:
        """A copy of TPC-H's orders, written in version 0. ``change`` makes each of the ``epochs`` versions after it."""
        path = self.folder / f"history-{name}" / "orders"
        if path.is_dir():
            return str(path)
        rows = self._spark.read.format("delta").load(self.source("orders", scale))
        unfinished = path.with_name("unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.option("delta.enableDeletionVectors", "true").save(str(unfinished))
        for epoch in range(epochs):
            change(f"delta.`{unfinished}`", epoch)
        unfinished.rename(path)
        return str(path)

    def fresh(self, name: str) -> str:
        """An empty location."""
        path = self.folder / "runs" / name
        for old in (path, Path(f"{path}.backfill")):
            shutil.rmtree(old, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return str(path)

    def copied(self, table: str, name: str) -> str:
        """A fresh copy of a table, with its control folder if it has one."""
        path = self.fresh(name)
        shutil.copytree(table, path)
        if Path(f"{table}.backfill").is_dir():
            shutil.copytree(f"{table}.backfill", f"{path}.backfill")
        return path
