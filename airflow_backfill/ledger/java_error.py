"""What the JVM said: the Java errors behind a Python one, read without importing py4j or PySpark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import BackfillError, SparkIncomplete
from airflow_backfill.core.values.options import masked

_MISSING_CLASSES = ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException")
_LINES = 3
_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Trouble:
    """One error of a chain: its class, Spark's or Delta's name for it and its SQL state, where it has them."""

    kind: str
    text: str
    condition: str | None = None
    state: str = ""

    @property
    def said(self) -> str:
        """Name and first line, with the expression that Spark points at; no stack, no secret of a URL."""
        head, _, context = self.text.partition("== SQL")
        head = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", re.sub(r"\s*SQLSTATE: \w+", "", head))
        lines = [line.strip() for line in head.splitlines() if line.strip()][: _LINES if self.condition else 1]
        pointed = context.splitlines()[1:2]
        where = f" (in {pointed[0].strip()[:_LENGTH]})" if pointed else ""
        return masked(f"{self.condition or self.kind}: {' '.join(lines)[:_LENGTH]}{where}")


def troubles(error: BaseException) -> Iterator[Trouble]:
    """The Python error, then each Java error behind it, down to the innermost."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    yield Trouble(type(error).__name__, "" if java is not None else str(error))
    while java is not None:
        condition, state = _named(java)
        yield Trouble(java.getClass().getSimpleName(), java.getMessage() or "", condition, state)
        java = java.getCause()


def innermost(error: BaseException) -> str:
    """What the error comes to in one line: Spark's own name for it first, then what it came from."""
    chain = list(troubles(error))
    named = [trouble for trouble in chain if trouble.condition]
    cause = chain[-1].said
    if not named or cause.startswith(f"{named[-1].condition}:"):
        return cause
    return f"{named[-1].said}; caused by {cause}"


def incomplete(error: BaseException) -> BackfillError | None:
    """The error as SparkIncomplete if it says that a class is missing, or the file system of a scheme."""
    for trouble in troubles(error):
        if trouble.kind in _MISSING_CLASSES:
            return SparkIncomplete(
                f"{innermost(error)}; add the jar that has it (spark.jars.packages, or --jars), then clear the task"
            )
    return None


def _named(java: Any) -> tuple[str | None, str]:
    """Name and SQL state of an error that has them."""
    try:
        return java.getCondition(), java.getSqlState() or ""
    except Exception:  # It is no SparkThrowable.
        return None, ""
