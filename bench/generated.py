"""Logs of any length that no writer had the time to write: commit files without data, and folders of attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_backfill.core.values.commit import Commit, FileTotals
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.testing.json_log import JsonLog, actions

CHECKPOINTS = 10
"""Commits from one checkpoint to the next, as by default."""


def commits(table: str, count: int, **fields: Any) -> None:
    """Add so many commits to the table's log, each one file unless ``fields`` of the commits say otherwise; with the
    pointer to the last checkpoint that a writer leaves.
    """
    log = JsonLog(table)
    first = log.head + 1
    fields = {
        "operation": "WRITE",
        "added": FileTotals(1, 900, 10),
        "data_change": True,
        "timestamp": now_ms(),
        **fields,
    }
    folder = Path(table, "_delta_log")
    for version in range(first, first + count):
        # Not by ``land``, which waits for the disk.
        lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions(Commit(version, **fields)))
        (folder / f"{version:020}.json").write_text("".join(lines))
    (folder / "_last_checkpoint").write_text(json.dumps({"version": (first + count) // CHECKPOINTS * CHECKPOINTS}))
    log.write_checksum()


def attempts(target: str, count: int) -> None:
    """Fill the folder of attempts with so many more, each with its start and its outcome."""
    folder = Path(f"{target}.backfill", "attempts")
    folder.mkdir(parents=True, exist_ok=True)
    first = max((int(path.name[:9]) for path in folder.iterdir()), default=0) + 1
    for number in range(first, first + count):
        document = json.dumps({"attempt": str(number), "task": "upstream", "code": "OK"})
        for companion in ("", ".started", ".outcome"):
            (folder / f"{number:09}{companion}.json").write_text(document)


def grown(table: str, version: int, files: int) -> int:
    """Let the commit of a version touch so many files more. Returns the size of its file, in bytes."""
    path = Path(table, "_delta_log", f"{version:020}.json")
    stats = json.dumps({"numRecords": 1000, "minValues": {"id": 1}, "maxValues": {"id": 1000}, "note": "x" * 400})
    with path.open("a") as file:
        for number in range(files):
            add = {"path": f"f-{number}", "partitionValues": {}, "size": 9, "modificationTime": 5, "dataChange": True}
            file.write(json.dumps({"add": {**add, "stats": stats}}) + "\n")
    return path.stat().st_size
