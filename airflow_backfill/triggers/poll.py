"""Polls in a thread, every few seconds, until the task has something to do.

The threads are not those of the event loop: these few serve everything else in a triggerer, and a poll mostly waits for
a store.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.watching.fired import ERROR
from airflow_backfill.watching.patience import Patience

AT_ONCE = 32
"""Polls of one triggerer that work at once."""
SLOW_SECONDS = 2.0
"""After this time a poll waits for a store that may never answer, and lets another one work."""
_TURNS = asyncio.Semaphore(AT_ONCE)
_POOL = ThreadPoolExecutor(1000, "table-backfill-poll")
"""As many threads as a triggerer has waits, unless it is told otherwise: each may meet a store that hangs."""


class PollTrigger(BaseTrigger):
    """
    Fires once: when ``due`` is true, when the build has an error, which the task then raises itself, or at the
    deadline. A store that does not answer is an error after ten polls.

    All that it needs is in its arguments, so several copies may run at once with the same result. Other errors are
    raised: Airflow then fails the trigger with its traceback.

    It waits one interval before the first poll: the task has just polled, and Airflow fails a task that resumes before
    its scheduler has registered the deferral (apache/airflow#72716).

    :param poke_interval: seconds before each poll.
    :param deadline: when to fire at the latest, in seconds since 1970.
    """

    arguments: ClassVar[tuple[str, ...]] = ("poke_interval", "deadline")
    """What its constructor takes: the attributes from which a copy is made."""

    def __init__(self, *, poke_interval: float, deadline: float | None = None) -> None:
        super().__init__()
        self.poke_interval = poke_interval
        self.deadline = deadline
        self._patience = Patience(self.log)
        self._error: BackfillError | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {name: getattr(self, name) for name in self.arguments}

    @abstractmethod
    def due(self) -> bool:
        """Whether the task has something to do. Reads files, so it runs in a thread."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        over = False
        while not over:
            # Once at least: by the clock of the worker that looks again, the deadline may have yet to come.
            await asyncio.sleep(self.poke_interval)
            over = await self.poll() or (self.deadline is not None and time.time() >= self.deadline)
        yield TriggerEvent(self.event())

    def event(self) -> dict[str, Any]:
        """What the task is told when the trigger fires."""
        error = self._error or self._patience.error
        return {"deadline": self.deadline, **({} if error is None else {ERROR: str(error)})}

    async def poll(self) -> bool:
        """Whether the task has something to do, if only to raise the build's error."""
        loop = asyncio.get_running_loop()
        async with _TURNS:
            due = loop.run_in_executor(_POOL, copy_context().run, self._due)
            await asyncio.wait([due], timeout=SLOW_SECONDS)
        return await due

    def _due(self) -> bool:
        try:
            return bool(self._patience.ask(self.due))
        except BackfillError as error:
            self.log.info("resuming the task because of an error: %s", error)
            self._error = error
            return True
