"""A loop that looks every few seconds, in a thread, until it is worth to wake the task."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill.core.errors import BackfillError


class PollTrigger(BaseTrigger):
    """
    Fires once: when ``due`` says so, when the build has an error, which the task then meets itself, or at the deadline.

    Everything it knows is in ``serialize``, so any number of copies may run at once and say the same. Errors that
    are not the build's are raised: Airflow then fails the trigger with its traceback.

    The first look comes after an interval, too: the task has just looked. And Airflow fails a task that goes on before
    its scheduler has heard of the pause (apache/airflow#72716).

    :param poke_interval: seconds before each look.
    :param deadline: when to fire at the latest, in seconds since 1970.
    """

    def __init__(self, *, poke_interval: float, deadline: float | None = None) -> None:
        super().__init__()
        self.poke_interval = poke_interval
        self.deadline = deadline

    @abstractmethod
    def due(self) -> bool:
        """Whether the task has something to do. Reads files, so it is called in a thread."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while self.deadline is None or time.time() < self.deadline:
            await asyncio.sleep(self.poke_interval)
            if await asyncio.to_thread(self._due):
                break
        yield TriggerEvent({"deadline": self.deadline})

    def _due(self) -> bool:
        try:
            return self.due()
        except BackfillError as error:
            self.log.info("waking the task for an error: %s", error)
            return True
