"""Commits with delta-rs: no JVM, milliseconds for a change of a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from demo.dialect import file_bytes, literal, matching
from demo.journal import Key, Operation, Row
from demo.tpch import TABLES

GONE = "gone"


class DeltaRsEngine:
    """Keeps the tables open, and reads other writers' commits before each of its own."""

    conflicts: tuple[type[Exception], ...] = (CommitFailedError,)

    def __init__(self, tables: Path) -> None:
        self._path = tables
        self._tables = {name: DeltaTable(tables / name) for name in TABLES}

    def apply(self, operation: Operation, marker: str) -> None:
        table = self._tables[operation.table]
        table.update_incremental()
        key = TABLES[operation.table].key
        properties = CommitProperties(custom_metadata={"userMetadata": marker})
        match operation.kind:
            case "append":
                write_deltalake(table, _arrow(table, operation.upserts), mode="append", commit_properties=properties)
            case "delete":
                table.delete(matching(key, operation.deletes), commit_properties=properties)
            case "update":
                keys = [tuple(row[column] for column in key) for row in operation.upserts]
                assignments = {column: literal(value) for column, value in (operation.assignments or {}).items()}
                table.update(assignments, predicate=matching(key, keys), commit_properties=properties)
            case "merge":
                _merge(table, key, operation, properties)
            case "optimize":
                size = file_bytes(self._path / operation.table)
                table.optimize.compact(target_size=size, commit_properties=properties)


def _merge(table: DeltaTable, key: tuple[str, ...], operation: Operation, properties: CommitProperties) -> None:
    keys = [tuple(row[column] for column in key) for row in operation.upserts] + list(operation.deletes)
    same = " AND ".join(f"target.{column} = source.{column}" for column in key)
    touched = matching([f"target.{key[0]}"], {each[:1] for each in keys})
    changes = _arrow(table, [*operation.upserts, *(_only(key, gone) for gone in operation.deletes)])
    gone = [False] * len(operation.upserts) + [True] * len(operation.deletes)
    (
        table.merge(
            changes.append_column(GONE, pyarrow.array(gone)),
            f"{same} AND {touched}",
            source_alias="source",
            target_alias="target",
            commit_properties=properties,
        )
        .when_matched_delete(f"source.{GONE}")
        .when_matched_update_all(f"NOT source.{GONE}", except_cols=[GONE])
        .when_not_matched_insert_all(f"NOT source.{GONE}", except_cols=[GONE])
        .execute()
    )


def _only(columns: tuple[str, ...], key: Key) -> Row:
    return dict(zip(columns, key, strict=True))


def _arrow(table: DeltaTable, rows: Sequence[Row]) -> pyarrow.Table:
    """The rows with the table's columns, all nullable: a row to delete has only its key."""
    schema = pyarrow.schema(table.schema().to_arrow())
    return pyarrow.Table.from_pylist(rows, schema=pyarrow.schema([field.with_nullable(True) for field in schema]))
