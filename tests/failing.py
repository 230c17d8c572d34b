"""Stores that fail once, before an operation is done or after it (only the answer is lost), or for a while."""

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


class Away:
    """The first calls of what it wraps are not answered; ``left`` is how many such calls are still to come."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def wrapped(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                return operation(*arguments, **options)
            self.left -= 1
            raise SourceUnavailable("away")

        return call
