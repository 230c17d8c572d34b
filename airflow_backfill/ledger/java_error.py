"""The Java errors behind a Python error, read without importing py4j or PySpark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import BackfillError, SparkIncomplete
from airflow_backfill.core.values.options import masked

_MISSING_CLASSES = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")
_MAX_LINES = 3
_MAX_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Trouble:
    """One error of a chain: its class, its error condition and SQL state in Spark or Delta, if it has them."""

    kind: str
    text: str
    condition: str | None = None
    state: str = ""

    @property
    def said(self) -> str:
        """Condition or class, first lines, and the expression that Spark names, without stack trace and secrets."""
        head, _, context = self.text.partition("== SQL")
        head = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", re.sub(r"\s*SQLSTATE: \w+", "", head))
        lines = [line.strip() for line in head.splitlines() if line.strip()][: _MAX_LINES if self.condition else 1]
        pointed = context.splitlines()[1:2]
        where = f" (in {pointed[0].strip()[:_MAX_CHARACTERS]})" if pointed else ""
        return masked(f"{self.condition or self.kind}: {' '.join(lines)[:_MAX_CHARACTERS]}{where}")


def troubles(error: BaseException) -> Iterator[Trouble]:
    """The Python error, then each Java error behind it, down to the innermost."""
    behind = list(java_errors(error))
    yield Trouble(type(error).__name__, "" if behind else str(error))
    for java in behind:
        condition, state = _named(java)
        yield Trouble(java.getClass().getSimpleName(), java.getMessage() or "", condition, state)


def java_errors(error: BaseException) -> Iterator[Any]:
    """The Java errors behind a Python error, down to the innermost."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        yield java
        java = java.getCause()


def innermost(error: BaseException) -> str:
    """The error in one line: Spark's error condition first, then its cause."""
    chain = list(troubles(error))
    named = [trouble for trouble in chain if trouble.condition]
    cause = chain[-1].said
    if not named or cause.startswith(f"{named[-1].condition}:"):
        return cause
    return f"{named[-1].said}; caused by {cause}"


def text_of(error: BaseException) -> str:
    """The messages of the whole chain."""
    return "\n".join(trouble.text for trouble in troubles(error))


def incomplete(error: BaseException, coordinates: Callable[[], str | None] = lambda: None) -> BackfillError | None:
    """SparkIncomplete if a class or the file system of a scheme is missing; else None. ``coordinates`` of the jar that
    brings it, if they are known.
    """
    for trouble in troubles(error):
        if trouble.kind in _MISSING_CLASSES:
            needed = coordinates()
            jar = "the missing jar" if needed is None else f"{needed}, beside Delta's coordinates"
            return SparkIncomplete(
                f"{innermost(error)}; add {jar} (spark.jars.packages, or --jars), then clear the task", needed=needed
            )
    return None


def _named(java: Any) -> tuple[str | None, str]:
    """Error condition and SQL state, if the error has them."""
    try:
        return java.getCondition(), java.getSqlState() or ""
    except Exception:  # not a SparkThrowable
        return None, ""
