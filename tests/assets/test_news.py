"""A DAG must not start itself."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable

from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.upstream import UpstreamOperator

ORDERS = Asset("orders", uri="s3://lake/orders")
OTHER, THIRD = Asset("other"), Asset("third")
NIGHTLY = CronTriggerTimetable("0 0 * * *", timezone="UTC")


@pytest.mark.parametrize("operator", [UpstreamOperator, FinishOperator])
@pytest.mark.parametrize(
    "schedule",
    [
        ORDERS,
        [OTHER, ORDERS],
        OTHER | ORDERS,
        OTHER & (THIRD | ORDERS),
        Asset.ref(name="orders"),
        OTHER | Asset.ref(uri="s3://lake/orders"),
        AssetOrTimeSchedule(timetable=NIGHTLY, assets=OTHER | ORDERS),
    ],
    ids=["it", "in a list", "either", "nested", "by name", "by address", "with a clock"],
)
def test_a_dag_that_would_start_itself_is_refused(operator, schedule):
    with pytest.raises(ValueError, match="emits orders, and d is scheduled on it"), DAG("d", schedule=schedule):
        operator(task_id="t", target="/lake/orders", outlets=[ORDERS])


@pytest.mark.parametrize("schedule", [None, "@daily", OTHER, [OTHER, THIRD], OTHER | THIRD])
def test_others_are_not(schedule):
    with DAG("d", schedule=schedule, start_date=None):
        UpstreamOperator(task_id="t", target="/lake/orders", outlets=[ORDERS])
