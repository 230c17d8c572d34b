"""An epoch whose changes are more than an application's memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications, all_phases

pytestmark = [pytest.mark.spark, pytest.mark.soak]

ROWS, CHANGED = 1_300_000, 1_000_000
MOST = ("--round-rows", "1100000")
HEAP = "512m"
FILLER = "repeat(sha2(string(id), 256), 5)"
"""320 characters: a million rows before and after their change are more than the heap."""


def test_a_million_changes_in_one_epoch_pass_through_a_small_heap(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    made = (
        spark.range(ROWS).selectExpr("id", f"{FILLER} AS text").repartitionByRange(12, "id").sortWithinPartitions("id")
    )
    made.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
    apps = Applications(target, memory=HEAP)
    tables = {"source": source, "target": target}
    apps.result("plan", "--spec", json.dumps({"name": "large", **tables, "key": ["id"], "strategy": "arrangement"}))
    apps.run("snapshot", *MOST, crash="after_commit:2:python")
    read = BuildReader(target).state().totals.snapshot_rows
    assert CHANGED <= read < ROWS

    spark.sql(f"UPDATE delta.`{source}` SET text = concat('new ', text) WHERE id < {CHANGED}")
    apps.result("snapshot", *MOST, *all_phases(lag_epochs=0))

    def rows(table: str) -> DataFrame:
        return spark.read.format("delta").load(table)

    state = BuildReader(target).state()
    assert state.certificate is not None and state.certificate.rows == ROWS
    assert state.totals.snapshot_rows == ROWS
    assert rows(target).where("text LIKE 'new %'").count() == CHANGED
    assert rows(source).exceptAll(rows(target)).isEmpty()
