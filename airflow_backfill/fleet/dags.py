"""The DAGs of a fleet: two for each table, one that builds it and one that follows its source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pendulum
from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, BaseOperator, CronTriggerTimetable, get_parsing_context

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.failure import decided
from airflow_backfill.fleet.document import read
from airflow_backfill.fleet.table import Table, tables
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import RETRIES, BackfillTaskGroup

if TYPE_CHECKING:
    from airflow.sdk import Context

START = pendulum.datetime(2026, 1, 1)
OF_FOLLOWERS = (
    *("submit", "ledger_conn_id", "kafka_conn_id", "round_bytes", "round_rows"),
    *("on_warning_callback", "warn_lag"),
)
"""The options of a build that its follower has, too."""


class RefusedOperator(BaseOperator):
    """
    Stands for a table whose options are wrong, and fails with the error.

    :param message: the error's message.
    :param data: the error's data.
    """

    def __init__(self, *, message: str, data: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message
        self.data = data

    def execute(self, context: Context) -> None:
        with decided(context):
            raise InvalidSpec(self.message, **self.data)


def fleet_dags(fleet: Path | str | Mapping[str, Any], **dag: Any) -> dict[str, DAG]:
    """The DAGs of a fleet by their ids, for ``globals().update(...)``.

    Each table gets ``<fleet>_<table>_build``, which runs once, and with ``follow`` also ``<fleet>_<table>_follow``,
    which waits for the hand-off and then follows the source. Both are of this table alone: it fails, waits and is
    paused alone. The build emits the asset ``<fleet>/<table>/handoff``, the follower ``<fleet>/<table>``.

    A table with a wrong option gets DAGs that fail with SPEC_INVALID, with table and field, and no other table notices.

    :param fleet: a YAML file, or its content as a mapping: ``name``, ``defaults``, ``tables``.
    :param dag: arguments of all DAGs, such as ``on_failure_callback`` or ``default_args``.
    :raises InvalidSpec: if the document as a whole cannot be read.
    """
    # A worker parses the file for one task: it needs one DAG of hundreds.
    wanted = get_parsing_context().dag_id
    name, documents = read(fleet)
    made: dict[str, DAG] = {}
    for table in tables(documents):
        for kind, make in (("build", _build), ("follow", _follow)):
            dag_id = f"{name}_{table.name}_{kind}"
            if wanted not in (None, dag_id) or (make is _follow and table.follow is None):
                continue
            try:
                if table.error is not None:
                    raise table.error
                made[dag_id] = make(dag_id, name, table, dag)
            except Exception as error:  # whatever an option of one table does to a constructor
                made[dag_id] = _refused(dag_id, name, table if table.error else table.broken(error), dag)
    return made


def _build(dag_id: str, fleet: str, table: Table, more: Mapping[str, Any]) -> DAG:
    with _dag(dag_id, fleet, table, more, schedule="@once") as dag:
        BackfillTaskGroup(table.name, handoff_asset=_asset(fleet, table, "/handoff"), **table.group)
    return dag


def _follow(dag_id: str, fleet: str, table: Table, more: Mapping[str, Any]) -> DAG:
    group = table.group
    same = {option: group[option] for option in OF_FOLLOWERS if option in group}
    timetable = CronTriggerTimetable(str(table.follow), timezone="UTC")
    schedule = AssetOrTimeSchedule(timetable=timetable, assets=[_asset(fleet, table, "/handoff")])
    with _dag(dag_id, fleet, table, more, schedule=schedule) as dag:
        await_finish = AwaitFinishSensor(
            task_id="await_finish",
            target=group["target"],
            ledger_conn_id=group.get("ledger_conn_id"),
            poke_interval=group.get("poke_interval", 60.0),
            deferrable=group.get("deferrable", True),
        )
        await_finish >> UpstreamOperator(
            task_id="upstream", target=group["target"], outlets=[_asset(fleet, table)], **same, **group.get("spark", {})
        )
    return dag


def _refused(dag_id: str, fleet: str, table: Table, more: Mapping[str, Any]) -> DAG:
    assert table.error is not None
    follows = dag_id.endswith("_follow")
    with _dag(
        dag_id, fleet, table, more, schedule=table.follow if follows else "@once", doc_md=str(table.error)
    ) as dag:
        RefusedOperator(task_id="refused", message=table.error.message, data=table.error.data, retries=0)
    return dag


def _dag(dag_id: str, fleet: str, table: Table, more: Mapping[str, Any], **own: Any) -> DAG:
    fixed = {"start_date": START, "catchup": False, "max_active_runs": 1, "tags": ["table backfill", fleet]}
    default_args = {"retries": RETRIES, **more.get("default_args", {}), **table.default_args}
    # Not by itself: a DAG whose making fails would be registered half made.
    return DAG(dag_id, **{**fixed, **more, **own, "default_args": default_args, "auto_register": False})


def _asset(fleet: str, table: Table, what: str = "") -> Asset:
    return Asset(f"{fleet}/{table.name}{what}")
