"""Waits for the end of a request to a service."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_backfill.triggers.poll import PollTrigger
from airflow_backfill.watching.fired import LAST
from airflow_backfill.watching.instance import Instance
from airflow_backfill.watching.request_watch import RequestWatch


class RequestTrigger(PollTrigger):
    """
    Fires when the work of the request has ended, or is lost, and at the deadline. If a user ends the task, the request
    is withdrawn. Airflow ends the trigger in the same way if this triggerer stood still and another one has taken the
    wait over: then the task still waits, and the request stays.

    :param watch: the request, from ``RequestWatch.to_json``.
    """

    arguments = (*PollTrigger.arguments, "watch")

    def __init__(self, *, watch: dict[str, Any], poke_interval: float, deadline: float | None = None) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self._watch = RequestWatch.from_json(watch)
        self._over = False

    @property
    def watch(self) -> dict[str, Any]:
        return self._watch.to_json()

    def due(self) -> bool:
        self._over = self._watch.over()
        return self._over

    def event(self) -> dict[str, Any]:
        return {**super().event(), **({LAST: self._watch.last} if self._over else {})}

    async def on_kill(self) -> None:
        await asyncio.to_thread(self._withdraw)

    def _withdraw(self) -> None:
        task = self.task_instance
        if task is None or Instance(task.dag_id, task.run_id, task.task_id, task.map_index).state() != "deferred":
            self._watch.folder.remove(self._watch.name)
