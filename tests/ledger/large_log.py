"""The log of a large table, without its data: 200,000 files in 5,000 commits.

As Spark leaves one: a commit and a checksum per version, a classic checkpoint a few commits before the head,
and a pointer to it. ``write_large_log`` takes ten seconds and 200 MB of disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COMMITS = 5_000
FILES_PER_COMMIT = 40
CHECKPOINT = 4_990
ROWS_PER_FILE = 10_000
COLUMNS = tuple(f"column_{number}" for number in range(8))

PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["appendOnly", "changeDataFeed", "deletionVectors", "invariants"],
}
METADATA = {
    "id": "5b6c7d8e-0000-4000-8000-00000000beef",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COLUMNS],
        }
    ),
    "partitionColumns": [],
    "configuration": {"delta.enableChangeDataFeed": "true"},
    "createdTime": 1_700_000_000_000,
}
TEXT, NUMBER, TEXTS, MAP = pa.string(), pa.int64(), pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
ACTIONS = pa.schema(
    {
        "txn": pa.struct({"appId": TEXT, "version": NUMBER, "lastUpdated": NUMBER}),
        "add": pa.struct(
            {"path": TEXT, "partitionValues": MAP, "size": NUMBER, "modificationTime": NUMBER}
            | {"dataChange": pa.bool_(), "stats": TEXT}
        ),
        "metaData": pa.struct(
            {"id": TEXT, "format": pa.struct({"provider": TEXT, "options": MAP}), "schemaString": TEXT}
            | {"partitionColumns": TEXTS, "configuration": MAP, "createdTime": NUMBER}
        ),
        "protocol": pa.struct(
            {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
            | {"readerFeatures": TEXTS, "writerFeatures": TEXTS}
        ),
    }
)
"""The columns of a checkpoint."""


def write_large_log(table: Path) -> None:
    """Make the log in ``table``, which has no data files."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    size = 0
    for version in range(COMMITS):
        added = [_add(version, number) for number in range(FILES_PER_COMMIT)]
        size += sum(action["size"] for action in added)
        lines = [{"commitInfo": _commit_info(version)}]
        if version == 0:
            lines += [{"protocol": PROTOCOL}, {"metaData": METADATA}]
        lines.append({"txn": {"appId": "build-1/0/0", "version": version + 1}})
        lines += [{"add": action} for action in added]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (log / f"{version:020}.json").write_text(text)
        (log / f"{version:020}.crc").write_text(json.dumps(_checksum(version, size)))
    _write_checkpoint(log)


def _add(version: int, number: int) -> dict[str, Any]:
    lowest = {name: (version * FILES_PER_COMMIT + number) * ROWS_PER_FILE for name in COLUMNS}
    stats = {
        "numRecords": ROWS_PER_FILE,
        "minValues": lowest,
        "maxValues": {name: value + ROWS_PER_FILE - 1 for name, value in lowest.items()},
        "nullCount": dict.fromkeys(COLUMNS, 0),
        "tightBounds": True,
    }
    return {
        "path": f"part-{number:05}-{version:08}-0000-4000-8000-000000000000-c000.snappy.parquet",
        "partitionValues": {},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + version * 1000,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


def _commit_info(version: int) -> dict[str, Any]:
    return {
        "timestamp": 1_700_000_000_000 + version * 1000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "operationMetrics": {"numFiles": str(FILES_PER_COMMIT), "numOutputRows": str(FILES_PER_COMMIT * ROWS_PER_FILE)},
        "userMetadata": json.dumps({"build": "build-1", "seq": version + 1}),
        "engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0",
    }


def _checksum(version: int, size: int) -> dict[str, Any]:
    return {
        "tableSizeBytes": size,
        "numFiles": (version + 1) * FILES_PER_COMMIT,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [{"appId": "build-1/0/0", "version": version + 1}],
        "domainMetadata": [],
        "metadata": METADATA,
        "protocol": PROTOCOL,
    }


def _write_checkpoint(log: Path) -> None:
    name = f"{CHECKPOINT:020}.checkpoint.parquet"
    count = 0
    with pq.ParquetWriter(log / name, ACTIONS) as writer:
        for actions in _batches():
            count += len(actions)
            writer.write_table(pa.Table.from_pylist(actions, schema=ACTIONS))
    (log / "_last_checkpoint").write_text(json.dumps({"version": CHECKPOINT, "size": count}))


def _batches() -> Iterator[list[dict[str, Any]]]:
    options: dict[str, Any] = {"format": {"provider": "parquet", "options": []}}
    yield [
        {"protocol": PROTOCOL},
        {"metaData": METADATA | options | {"configuration": list(METADATA["configuration"].items())}},
        {"txn": {"appId": "build-1/0/0", "version": CHECKPOINT + 1}},
    ]
    for first in range(0, CHECKPOINT + 1, 250):
        yield [
            {"add": _add(version, number) | {"partitionValues": [], "dataChange": False}}
            for version in range(first, min(first + 250, CHECKPOINT + 1))
            for number in range(FILES_PER_COMMIT)
        ]
