"""Common to both engines: predicates, literals, file sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from demo.journal import Key


def file_bytes(table: Path) -> int:
    """The size of files after OPTIMIZE: that of the largest file now, so that a table keeps many files."""
    return max(path.stat().st_size for path in table.glob("*.parquet"))


def matching(columns: Sequence[str], keys: Iterable[Key]) -> str:
    """A predicate for exactly these keys of one or two columns. Both engines can prune files by it."""
    first, *rest = columns
    ordered = sorted(keys)
    if not rest:
        return f"{first} IN ({_listed(ordered, 0)})"
    groups = groupby(ordered, key=itemgetter(0))
    return " OR ".join(f"({first} = {value} AND {rest[0]} IN ({_listed(keys, 1)}))" for value, keys in groups)


def literal(value: Any) -> str:
    """A string or a decimal as a literal of both engines."""
    return str(value) if isinstance(value, Decimal) else "'" + value.replace("'", "''") + "'"


def _listed(keys: Iterable[Key], position: int) -> str:
    return ", ".join(str(key[position]) for key in keys)
