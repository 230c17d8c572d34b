"""A Delta log whose commits name data files that nobody wrote. Readers of logs find nothing missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import open_store


class JsonLog:
    """The log of the table at a location."""

    def __init__(self, table: str) -> None:
        self._store = open_store(table)
        self._log = DeltaLog(self._store)

    @property
    def head(self) -> int:
        return self._log.head()

    def read(self, version: int) -> Commit:
        return self._log.read(version)

    def land(self, commit: Commit) -> Commit:
        """Write what the commit says as the actions that say it; FileExistsError if another writer was faster."""
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions(commit))
        if not self._store.create(f"{LOG}/{commit_name(commit.version)}", text.encode()):
            raise FileExistsError(f"{self._store.url} has a version {commit.version} already")
        return commit

    def write_checksum(self) -> None:
        """Write the checksum of the newest version, as writers do for every one: readers look no further down."""
        protocol, metadata = self._log.protocol_and_metadata()
        content = {"protocol": _protocol(protocol), "metadata": _metadata(metadata)}
        self._store.put(f"{LOG}/{self.head:020}.crc", json.dumps(content).encode())


def actions(commit: Commit) -> Iterator[dict[str, Any]]:
    """The lines of a commit file."""
    info: dict[str, Any] = {"timestamp": commit.timestamp, "operation": commit.operation}
    info["operationMetrics"] = {name: str(value) for name, value in commit.metrics.items()}
    if commit.user_metadata is not None:
        info["userMetadata"] = commit.user_metadata
    yield {"commitInfo": info}
    if commit.protocol is not None:
        yield {"protocol": _protocol(commit.protocol)}
    if commit.metadata is not None:
        yield {"metaData": _metadata(commit.metadata)}
    for name, version in commit.txns.items():
        yield {"txn": {"appId": name, "version": version}}
    for kind, totals in (("add", commit.added), ("remove", commit.removed), ("cdc", commit.changed)):
        for file in _files(f"{kind}-{commit.version}", totals):
            stamp = {"add": {"modificationTime": commit.timestamp}, "remove": {"deletionTimestamp": commit.timestamp}}
            changes = commit.data_change and kind != "cdc"
            yield {kind: {**file, **stamp.get(kind, {}), "partitionValues": {}, "dataChange": changes}}


def _files(name: str, totals: FileTotals) -> Iterator[dict[str, Any]]:
    """As many files as the totals say; the first one has all bytes and rows."""
    for n in range(totals.files):
        file: dict[str, Any] = {"path": f"{name}-{n}.parquet", "size": 0 if n else totals.bytes}
        if totals.rows is not None:
            file["stats"] = json.dumps({"numRecords": 0 if n else totals.rows})
        if totals.deleted_rows and n == 0:
            file["deletionVector"] = {"storageType": "u", "cardinality": totals.deleted_rows}
        yield file


def _protocol(protocol: Protocol) -> dict[str, Any]:
    found: dict[str, Any] = {"minReaderVersion": protocol.reader_version, "minWriterVersion": protocol.writer_version}
    if protocol.reader_version >= 3:
        found["readerFeatures"] = sorted(protocol.reader_features)
    if protocol.writer_version >= 7:
        found["writerFeatures"] = sorted(protocol.writer_features)
    return found


def _metadata(metadata: TableMetadata) -> dict[str, Any]:
    return {
        "id": metadata.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": metadata.schema_json,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": 0,
    }
