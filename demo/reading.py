"""Reads the rows of a table at a version with delta-rs, which shares no code with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
from deltalake import DeltaTable, QueryBuilder

from demo.journal import Row


def by_delta_rs(table: Path, version: int | None = None) -> Iterator[Row]:
    """The rows of a version, or of the newest one."""
    query = QueryBuilder().register("rows", DeltaTable(table, version=version)).execute("SELECT * FROM rows")
    for batch in query:
        yield from pyarrow.record_batch(batch).to_pylist()
