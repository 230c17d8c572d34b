"""The consumer of ``orders_backfill``: follows the source from the hand-off on, every five minutes.

It starts as soon as the hand-off is committed; until then its sensor does not open. It needs only the target, whose log
has the plan and the last applied epoch.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable
from places import LAKE, spark

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor

TARGET = f"{LAKE}/marts/orders_eur"

with DAG(
    "orders_follow",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("*/5 * * * *", timezone="UTC"), assets=[Asset("orders_ready")]
    ),
    start_date=pendulum.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["table backfill"],
):
    await_finish = AwaitFinishSensor(task_id="await_finish", target=TARGET, deferrable=True)
    # A DAG that is scheduled on this asset runs only when rows of the target have changed.
    upstream = UpstreamOperator(task_id="upstream", target=TARGET, outlets=[Asset("orders_eur")], retries=3, **spark())
    await_finish >> upstream
