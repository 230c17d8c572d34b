"""spark-submit, the default launcher of applications.

The only file that uses private parts of Airflow's operator. An application belongs to an attempt, so its handle is
stored under the attempt's name, and one operator submits several applications. ``tests/operators/test_spark_submit.py``
checks that the installed version has these parts.
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
    """Submits applications one after the other, and rejoins one that still runs after its worker died."""

    def submit_attempt(self, context: Context, attempt: str, environment: Mapping[str, str]) -> None:
        """Submit the application of an attempt and wait for its end; only wait if it was already submitted.
        spark-submit inherits ``environment``.
        """
        self.external_id_key = _handle_key(attempt)
        self._hook = None  # it has the arguments of the previous application
        with inherited(environment):
            SparkSubmitOperator.execute(self, context)

    def still_runs(self, context: Context, attempt: str) -> bool:
        """Whether the application of an attempt still runs, according to the cluster."""
        handle = context["task_state_store"].get(_handle_key(attempt)) if self.durable else None
        if handle is None:
            return False
        try:
            active: bool = self.is_job_active(self.get_job_status(handle, context))
        except Exception:
            # A second application is safe, because it fences the first. The cluster may never answer.
            self.log.warning(
                "cannot get the state of application %s from the cluster; starting another one", handle, exc_info=True
            )
            return False
        if active:
            self.log.info("rejoining the application of attempt %s: %s", attempt, handle)
        return active

    @property
    def in_cluster_mode(self) -> bool:
        """Whether the driver starts on another machine, which does not inherit the environment."""
        return bool(self._get_hook()._connection["deploy_mode"] == "cluster")

    def execute_resumable(self, context: Context) -> None:
        """Submit and store the handle under the attempt's name; only wait for the application if there is a handle."""
        store = context["task_state_store"]
        handle = store.get(self.external_id_key) if self.durable else None
        if handle is None:
            store.delete(self._K8S_DRIVER_STATUS_KEY)  # may be of the previous application
            handle = self.submit_job(context)
            if self.durable and handle is not None:
                store.set(self.external_id_key, handle, retention=NEVER_EXPIRE)
        self.poll_until_complete(handle, context)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        if self._hook is not None and self._hook._is_yarn_cluster_mode:
            # Only a submission sets this. Without it, a kill after a reconnect does not reach the application.
            self._hook._yarn_application_id = cast("str", external_id)
        super().poll_until_complete(external_id, context)


def _handle_key(attempt: str) -> str:
    """The key in ``task_state_store`` of the application's handle in the cluster."""
    return f"spark_job_id/{attempt}"
