"""How a change gets into a table: an interface with two engines.

``delta-rs`` commits in milliseconds and needs no JVM; it rewrites the files it touches.
``spark`` needs seconds and a JVM; its deletes, updates and merges leave deletion vectors, as in most sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from demo.journal import Operation

ENGINES = ("delta-rs", "spark")


class Engine(Protocol):
    """Makes one commit of an operation, or raises. After an error the commit may have landed all the same."""

    conflicts: tuple[type[Exception], ...]
    """The errors after which the same operation can be tried again."""

    def apply(self, operation: Operation, marker: str) -> None:
        """Commits with ``marker`` as user metadata; an OPTIMIZE with nothing to do commits nothing."""


def open_engine(name: str, tables: Path) -> Engine:
    """The engine of that name for the tables in a directory. Imports only what that engine needs."""
    if name == "spark":
        from demo.spark_engine import SparkEngine

        return SparkEngine(tables)
    from demo.delta_rs import DeltaRsEngine

    return DeltaRsEngine(tables)
