"""Protocol and metadata from checksums and checkpoints.

Both may be missing or damaged without harm to the table; after ``Malformed`` the caller reads older versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from airflow_backfill.core.values.commit import Protocol, TableMetadata
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.log_listing import LOG
from airflow_backfill.ledger.store import Store

MAX_CHECKSUM_BYTES = 64 << 20
_COLUMNS = ("protocol", "metaData")


def read_checksum(store: Store, version: int) -> tuple[Protocol, TableMetadata]:
    """From the version's checksum; ``Malformed`` if it is truncated or lacks these fields."""
    fields = actions.decode(store.read(f"{LOG}/{version:020}.crc", MAX_CHECKSUM_BYTES))
    return actions.protocol(fields.get("protocol")), actions.metadata(fields.get("metadata"))


def read_checkpoint(store: Store, names: Sequence[str]) -> tuple[Protocol, TableMetadata]:
    """From a checkpoint: reads two of its columns, never the list of files."""
    found: dict[str, Any] = {}
    for name in names:
        rows = _json_rows if name.endswith(".json") else _parquet_rows
        for key, value in rows(store, f"{LOG}/{name}"):
            found[key] = value
        if len(found) == len(_COLUMNS):
            break
    return actions.protocol(found.get("protocol")), actions.metadata(found.get("metaData"))


def _json_rows(store: Store, name: str) -> Iterator[tuple[str, Any]]:
    for line in actions.lines(store.chunks(name)):
        for key, value in actions.decode(line).items():
            if key in _COLUMNS:
                yield key, value


def _parquet_rows(store: Store, name: str) -> Iterator[tuple[str, Any]]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise Malformed("the package pyarrow is required to read it; install it") from error
    with store.open(name) as file:
        try:
            table = parquet.ParquetFile(file).read(columns=_COLUMNS)
        except (ValueError, OSError) as error:
            raise Malformed(f"not a checkpoint: {error}") from error
    for key in table.column_names:
        for value in table.column(key).drop_null().to_pylist():
            # Arrow gives a map as a list of pairs.
            yield key, value | {"configuration": dict(value["configuration"])} if key == "metaData" else value
