"""A store that fails once: before an operation is done, or after it, so that only the answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_backfill.core.errors import SourceUnavailable

OPERATIONS = ("create", "put", "delete", "read", "list", "open", "chunks")


class Failing:
    """Counts the operations that it wraps, and fails at one (``at``; 0: at none)."""

    def __init__(self, done: bool = False) -> None:
        self.count = self.at = 0
        self.done = done

    def wrapped(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count != self.at:
                return operation(*arguments, **options)
            if self.done:
                operation(*arguments, **options)
            raise SourceUnavailable("503")

        return call
