"""How a change gets into a table: an interface with two engines.

``delta-rs`` commits in milliseconds and needs no JVM; it rewrites the files it touches.
``spark`` needs seconds and a JVM; its deletes, updates and merges leave deletion vectors, as in most sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from demo.journal import Key, Operation

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


def file_bytes(table: Path) -> int:
    """How large OPTIMIZE makes files: as the largest one is now, so that a table stays in many files."""
    return max(path.stat().st_size for path in table.glob("*.parquet"))


def matching(columns: Sequence[str], keys: Iterable[Key]) -> str:
    """True for exactly these keys of one or two columns, in a form that file statistics can prune."""
    first, *rest = columns
    ordered = sorted(keys)
    if not rest:
        return f"{first} IN ({_listed(ordered, 0)})"
    groups = groupby(ordered, key=itemgetter(0))
    return " OR ".join(f"({first} = {value} AND {rest[0]} IN ({_listed(keys, 1)}))" for value, keys in groups)


def literal(value: Any) -> str:
    """A string or a decimal as both engines read it."""
    return str(value) if isinstance(value, Decimal) else "'" + value.replace("'", "''") + "'"


def _listed(keys: Iterable[Key], position: int) -> str:
    return ", ".join(str(key[position]) for key in keys)
