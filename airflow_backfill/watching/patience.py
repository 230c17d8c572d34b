"""How often a task that waits may find that its store does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from airflow_backfill.core.errors import SourceUnavailable

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

PATIENCE_POLLS = 10
"""Polls in a row that may fail because a store does not answer. The wait may take weeks, and each time that it ends
with an error costs one of the task's retries.
"""

Found = TypeVar("Found")


class Patience:
    """Bears that a store does not answer for a while.

    :param log: where each failed poll is told.
    :param polls: which failed poll in a row is an error.
    """

    def __init__(self, log: Logger, polls: int = PATIENCE_POLLS) -> None:
        self._log = log
        self._polls = polls
        self.error: SourceUnavailable | None = None
        """What the last poll met, if the store did not answer."""
        self._unanswered = 0

    def ask(self, poll: Callable[[], Found]) -> Found | None:
        """What the poll finds; None while the store does not answer, and SourceUnavailable after ``polls`` polls."""
        try:
            found = poll()
        except SourceUnavailable as error:
            self.error = error
            self._unanswered += 1
            if self._unanswered >= self._polls:
                raise
            self._log.warning("poll %d of %d that failed in a row: %s", self._unanswered, self._polls, error)
            return None
        self._unanswered, self.error = 0, None
        return found
