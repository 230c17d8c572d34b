"""Runs a service: one Spark application for the builds and followers of many tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import whole
from airflow_backfill.failure import decided
from airflow_backfill.hooks.kafka import kafka_environment
from airflow_backfill.hooks.ledger import store_environment
from airflow_backfill.ledger.location import Location
from airflow_backfill.operators.package import entry_points, package_zip
from airflow_backfill.operators.spark_submit import LevelledSparkSubmit, check_deployment, conf_with_jars, with_secrets
from airflow_backfill.spark_home import ENDS

if TYPE_CHECKING:
    from airflow.sdk import Context


class ServiceOperator(LevelledSparkSubmit):
    """
    Runs the applications of all tasks with ``submit=Served(service)``, several at once, for ``max_runtime``.

    Use it in a DAG with ``schedule="@continuous"`` and ``max_active_runs=1``: the next run takes over. Takes all other
    arguments of ``SparkSubmitOperator``.

    :param service: location of the service's folder, below which nothing else may be: where all workers, the triggerer
        and Spark can read and write. (templated)
    :param at_once: how many applications run at once.
    :param max_runtime: how long it takes requests. Then it ends, so that the memory of its Spark cannot grow for ever.
    :param drain: how long applications may then go on; what still runs is stopped, and its task is retried.
    :param ledger_conn_id: connection with the settings of the tables' store, as for the tasks that it serves.
        (templated)
    :param kafka_conn_id: connection of type ``kafka``, for topics. It reaches the driver as that of other tasks does.
        (templated)
    """

    template_fields: Sequence[str] = (
        *LevelledSparkSubmit.template_fields,
        "service",
        "ledger_conn_id",
        "kafka_conn_id",
    )

    def __init__(
        self,
        *,
        service: str,
        at_once: int = 8,
        max_runtime: timedelta = timedelta(hours=4),
        drain: timedelta = timedelta(minutes=10),
        ledger_conn_id: str | None = None,
        kafka_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "table-backfill-service")
        super().__init__(**kwargs)
        self.service = service
        self.at_once = whole("at_once", at_once, 1)
        self.max_runtime = duration("max_runtime", max_runtime)
        self.drain = duration("drain", drain)
        self.ledger_conn_id = ledger_conn_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> None:
        self.application = self.application or f"{entry_points()}/service.py"
        self.py_files = self.py_files or package_zip()
        with decided(context):
            self.application_args = [
                *("--service", Location.parse(self.service).url),
                *("--at-once", str(self.at_once)),
                *("--max-runtime", str(self.max_runtime.total_seconds())),
                *("--drain", str(self.drain.total_seconds())),
            ]
            self.conf = {**ENDS, **conf_with_jars(self, self._spark_binary, kafka=self.kafka_conn_id is not None)}
            check_deployment(self, secrets=self.kafka_conn_id is not None)
            environment = {**store_environment(self.ledger_conn_id), **kafka_environment(self.kafka_conn_id)}
        with with_secrets(self, environment):
            super().execute(context)
