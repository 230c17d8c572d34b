"""spark-submit, the launcher of every application that is given no other one.

The one file that reaches into the inside of Airflow's operator: an application belongs to an attempt, so its handle is
kept under the attempt's name, and an operator submits several of them. ``tests/operators/test_spark_submit.py`` checks
that the installed version has all of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.hooks.kafka import inherited

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pydantic import JsonValue


class SparkSubmit(SparkSubmitOperator):
    """Submits applications one after the other, and rejoins one that outlived its worker."""

    def submit_attempt(self, context: Context, attempt: str, environment: Mapping[str, str]) -> None:
        """Submit the application of an attempt and wait for its end; if it was submitted already, only wait.
        spark-submit inherits ``environment``.
        """
        self.external_id_key = _handle_key(attempt)
        self._hook = None  # it holds the arguments of the application before this one
        with inherited(environment):
            SparkSubmitOperator.execute(self, context)

    def still_runs(self, context: Context, attempt: str) -> bool:
        """Whether the cluster says that the application of an attempt still runs."""
        handle = context["task_state_store"].get(_handle_key(attempt)) if self.durable else None
        if handle is None:
            return False
        try:
            active: bool = self.is_job_active(self.get_job_status(handle, context))
        except Exception:
            # A second application does no harm, it fences the first one. Waiting for an answer could take for ever.
            self.log.warning("the cluster does not say whether %s runs; starting another", handle, exc_info=True)
            return False
        if active:
            self.log.info("rejoining the application of attempt %s: %s", attempt, handle)
        return active

    @property
    def in_cluster_mode(self) -> bool:
        """Whether the driver starts on another machine, which inherits no environment."""
        return bool(self._get_hook()._connection["deploy_mode"] == "cluster")

    def execute_resumable(self, context: Context) -> None:
        """Submit and keep the handle under the attempt's name; with a handle, only wait for its application."""
        store = context["task_state_store"]
        handle = store.get(self.external_id_key) if self.durable else None
        if handle is None:
            store.delete(self._K8S_DRIVER_STATUS_KEY)  # it may be of an application before this one
            handle = self.submit_job(context)
            if self.durable and handle is not None:
                store.set(self.external_id_key, handle, retention=NEVER_EXPIRE)
        self.poll_until_complete(handle, context)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        if self._hook is not None and self._hook._is_yarn_cluster_mode:
            # Only a submission sets it, and without it a kill after a reconnect does not reach the application.
            self._hook._yarn_application_id = cast("str", external_id)
        super().poll_until_complete(external_id, context)


def _handle_key(attempt: str) -> str:
    """The key in ``task_state_store`` under which the cluster's name for the application is."""
    return f"spark_job_id/{attempt}"
