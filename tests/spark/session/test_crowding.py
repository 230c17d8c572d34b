"""How much slower than alone the tasks of an application ran."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.spark.session import crowding as module
from airflow_backfill.spark.session.crowding import ALONE, FASTEST, FIRST_SECONDS, MOST, SLOWEST, crowding, pace
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


def stage(computed: float, at: int | None) -> SimpleNamespace:
    time = SimpleNamespace(isDefined=lambda: at is not None, get=lambda: SimpleNamespace(getTime=lambda: at))
    return SimpleNamespace(executorCpuTime=lambda: computed * 1e9, submissionTime=lambda: time)


@pytest.mark.parametrize(
    ("rows", "computed", "factor"),
    [
        (0, FIRST_SECONDS, 1.0),
        (10_000_000, FIRST_SECONDS + 4, 1.0),
        (10_000_000, (FIRST_SECONDS + 4) / 2, 0.5),
        (0, 2 * FIRST_SECONDS, 2.0),
        (10_000_000, 1.1, FASTEST),
        (0, 100, SLOWEST),
        (0, 0.5, 1.0),
    ],
)
def test_a_machine_is_as_fast_as_it_counts_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int, computed: float, factor: float
) -> None:
    """What the application did before, as a service does, does not count; nor does what has not begun."""
    found = [stage(50, 9), stage(computed / 2, 10), stage(computed / 2, 11), stage(50, None)]
    monkeypatch.setattr(module, "stages", lambda _: iter(found))
    assert pace(spark, rows, 10) == pytest.approx(factor)


def test_spark_knows_when_a_stage_began(spark: SparkSession) -> None:
    before = now_ms()
    spark.range(10).repartition(2).collect()
    newest = next(stages(spark))
    assert before - 1000 <= module._submitted(newest) <= now_ms()


def test_spark_knows_the_times_of_its_tasks(spark: SparkSession) -> None:
    spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 2000L) FROM range(0, 1, 1, 1)").collect()
    slept = next(stage for stage in stages(spark) if stage.executorRunTime() >= 2000)
    assert slept.executorCpuTime() < 1e9
