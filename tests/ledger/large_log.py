"""The log of a large table, without its data: 200,000 files in 5,000 commits.

As Spark leaves one: a commit per version, a checksum of the newest, a classic checkpoint a few commits before the head,
and a pointer to it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.testing.json_log import JsonLog, actions
from tests.core.model_target import SCHEMA

COMMITS = 5_000
FILES_PER_COMMIT = 40
CHECKPOINT = 4_990
ROWS_PER_FILE = 10_000
METADATA = TableMetadata("5b6c7d8e-0000-4000-8000-00000000beef", SCHEMA, (), {"delta.enableChangeDataFeed": "true"})
FEATURES = frozenset({"deletionVectors"})


def write_large_log(table: Path) -> None:
    """Make the log in ``table``, which has no data files."""
    log = JsonLog(str(table))
    log.land(_commit(0, protocol=Protocol(3, 7, FEATURES, FEATURES), metadata=METADATA))
    for version in range(1, COMMITS):
        # Not by ``land``, which waits for the disk.
        lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions(_commit(version)))
        (table / "_delta_log" / f"{version:020}.json").write_text("".join(lines))
    log.write_checksum()
    DeltaTable(table, version=CHECKPOINT).create_checkpoint()


def _commit(version: int, **more: Any) -> Commit:
    rows = FILES_PER_COMMIT * ROWS_PER_FILE
    return Commit(
        version,
        1_700_000_000_000 + version * 1000,
        "WRITE",
        added=FileTotals(FILES_PER_COMMIT, 100 * rows, rows),
        data_change=True,
        txns={"build-1/0/0": version + 1},
        user_metadata=json.dumps({"build": "build-1", "seq": version + 1}),
        metrics={"numFiles": FILES_PER_COMMIT, "numOutputRows": rows},
        **more,
    )
