"""A request to a service: one application, with its public command line, for one attempt.

A request is a file in the service's folder. It exists as long as its work is wanted: a task deletes its request to
withdraw it, and the service deletes a request when the attempt's outcome is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.document import count, parts, text

FORMAT = 1
TIME_DIGITS = 15
"""At the beginning of a request's name."""


@dataclass(frozen=True, slots=True)
class Request:
    """One start of an application. ``arguments`` are those of its entry point, with target and attempt among them."""

    application: str
    target: str
    attempt: Attempt
    arguments: tuple[str, ...]
    asked: int
    """When it was made, by the clock of whoever asked: milliseconds since 1970."""

    @property
    def name(self) -> str:
        """The name of its file. Names of older requests sort first; no two are equal, because no two attempts are."""
        return f"{self.asked:0{TIME_DIGITS}}{_of(self.attempt.name)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "application": self.application,
            "target": self.target,
            "generation": self.attempt.generation,
            "attempt": self.attempt.name,
            "arguments": list(self.arguments),
            "asked": self.asked,
        }

    @staticmethod
    def from_json(value: Any) -> Request:
        """The request; RecordInvalid if it is none, or of a newer version of this package."""
        try:
            format_, *names, generation, arguments, asked = parts(
                value, "format", "application", "target", "attempt", "generation", "arguments", "asked"
            )
            if format_ != FORMAT or not isinstance(arguments, list):
                raise ValueError(f"format {FORMAT} and a list of arguments are required")
            application, target, attempt = (text(name) for name in names)
            words = tuple(text(word) for word in arguments)
            return Request(application, target, Attempt(count(generation, 1), attempt), words, count(asked))
        except ValueError as error:
            raise RecordInvalid(
                f"not a request of this version: {error}; run service and tasks with one version of the package"
            ) from None


def of_attempt(names: Iterable[str], attempt: str) -> str | None:
    """The name of an attempt's request among ``names``; None if it is not there."""
    return next((name for name in names if name.endswith(_of(attempt))), None)


def _of(attempt: str) -> str:
    return f"-{attempt}.json"
