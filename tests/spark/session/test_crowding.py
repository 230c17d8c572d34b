"""How much slower than alone the tasks of an application ran."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.spark.session import crowding as module
from airflow_backfill.spark.session.crowding import ALONE, MOST, crowding
from airflow_backfill.spark.session.stages import stages

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("ran", "computed", "factor"),
    [(2 * ALONE * 10, 10, 2.0), (10, 10, 1.0), (1_000, 10, MOST), (100, 0.5, 1.0), (0, 0, 1.0)],
    ids=["twice as slow", "alone", "hardly at all", "too little to say", "no task yet"],
)
def test_tasks_that_ran_longer_than_they_computed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, ran: float, computed: float, factor: float
) -> None:
    half = SimpleNamespace(executorRunTime=lambda: ran * 1e3 / 2, executorCpuTime=lambda: computed * 1e9 / 2)
    monkeypatch.setattr(module, "stages", lambda _: iter([half, half]))
    assert crowding(spark) == pytest.approx(factor)


def test_spark_knows_the_times_of_its_tasks(spark: SparkSession) -> None:
    spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 2000L) FROM range(0, 1, 1, 1)").collect()
    slept = next(stage for stage in stages(spark) if stage.executorRunTime() >= 2000)
    assert slept.executorCpuTime() < 1e9
