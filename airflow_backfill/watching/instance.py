"""A task instance as Airflow knows it now: for waits that depend on one."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_backfill.core.errors import SourceUnavailable


@dataclass(frozen=True, slots=True)
class Instance:
    """A task of a DAG run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None = -1

    def state(self) -> str | None:
        """The task's current state in Airflow; None if it has none, SourceUnavailable if Airflow does not answer."""
        try:
            found = RuntimeTaskInstance.get_task_states(
                dag_id=self.dag_id, run_ids=[self.run_id], task_ids=[self.task_id]
            )
        except AirflowRuntimeError as error:
            raise SourceUnavailable(
                f"Airflow does not say the state of task {self.task_id!r}: {error}",
                task_id=self.task_id,
            ) from None
        index = -1 if self.map_index is None else self.map_index
        name = self.task_id if index < 0 else f"{self.task_id}_{index}"
        state = found.get(self.run_id, {}).get(name)
        return None if state is None else str(state)
