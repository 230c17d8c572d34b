"""The interface for committing a change to a table, with two engines.

``delta-rs`` commits in milliseconds, without a JVM, and rewrites the files it touches. ``spark`` needs seconds and a
JVM; its deletes, updates and merges write deletion vectors, as in most sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from demo.journal import Operation

ENGINES = ("delta-rs", "spark")


class Engine(Protocol):
    """Makes one commit of an operation, or raises. After an error the commit may still have landed."""

    conflicts: tuple[type[Exception], ...]
    """Errors after which the same operation can be tried again."""

    def apply(self, operation: Operation, marker: str) -> None:
        """Commit with ``marker`` as user metadata. An OPTIMIZE with nothing to do makes no commit."""


def open_engine(name: str, tables: Path) -> Engine:
    """The engine with this name, for the tables in a directory. Imports only this engine."""
    if name == "spark":
        from demo.spark_engine import SparkEngine

        return SparkEngine(tables)
    from demo.delta_rs import DeltaRsEngine

    return DeltaRsEngine(tables)
