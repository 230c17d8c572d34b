"""A table that several create at once is created once, and what a stopped creator left is in nobody's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from airflow_backfill.core.errors import InvalidSpec, TargetExists
from airflow_backfill.spark.kafka.dead_letters import check_table
from airflow_backfill.spark.session import creation
from airflow_backfill.spark.session.creation import create_table

pytestmark = pytest.mark.spark

ID = StructType().add("id", LongType())


def test_several_creators_make_one_table(spark: SparkSession, tmp_path: Path) -> None:
    places = [str(tmp_path / f"table {n % 2}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: create_table(spark, place, ID, {}), places))
    assert all(
        [file.name for file in Path(place, "_delta_log").glob("*.json")] == [f"{0:020}.json"] for place in places
    )


def test_what_a_stopped_creator_left_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "TRIES", 2)
    log = tmp_path / "table" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.1234.tmp").touch()
    create_table(spark, str(tmp_path / "table"), ID, {"delta.appendOnly": "true"})
    assert [file.name for file in log.glob("*.json")] == [f"{0:020}.json"]
    assert not (log / ".00000000000000000000.json.1234.tmp").exists()


def test_other_files_stay(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "precious.csv").write_text("1")
    with pytest.raises(TargetExists, match=f"{tmp_path} is not empty and not a Delta table, .* name another location"):
        create_table(spark, str(tmp_path), ID, {})
    assert (tmp_path / "precious.csv").read_text() == "1"


def test_dead_letters_are_refused_by_the_plan_where_other_files_are(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "precious.csv").write_text("1")
    with pytest.raises(InvalidSpec, match=r"topic\.undecodable: .* is not empty and not a Delta table"):
        check_table(spark, str(tmp_path))
