"""An attempt that lives is seen to live, by who reads beside its target."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.run.sign_of_life import signs_of_life
from airflow_backfill.spark.session.cost import cost


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


def test_the_cost_is_told_until_the_end(tmp_path: Path) -> None:
    control = ControlFolder.beside(str(tmp_path / "target"))
    me = control.draw_attempt({"task": "snapshot"}, floor=0)
    spent = iter(range(1, 1_000_000))
    with signs_of_life(control, me, {}, every=0.05, cost=lambda: {"core_seconds": next(spent)}):
        until(control, me, 0)
    (found,) = attempts(control, None, 0, 1).tried
    assert found.cost == {"core_seconds": next(spent) - 1}, "a last sign"


@pytest.mark.spark
def test_spark_counts_what_an_application_costs(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.range(100_000).write.parquet(path)
    before = cost(spark)
    spark.read.parquet(path).groupBy("id").count().count()
    after = cost(spark)
    assert all(after[name] > before[name] for name in ("core_seconds", "read_bytes", "shuffled_bytes"))


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
