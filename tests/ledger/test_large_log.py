"""What reading the end of a large log costs: a fresh process, its imports included.

The log is that of 200,000 files in 5,000 commits, as Spark leaves one: a commit per version, a checksum of the newest,
a classic checkpoint a few commits before the head, and a pointer to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.testing.json_log import JsonLog, actions
from tests.core.model_target import SCHEMA

pytestmark = pytest.mark.slow
Run = Callable[..., str]
NEWEST = 50
COMMITS = 5_000
FILES_PER_COMMIT = 40
CHECKPOINT = 4_990
ROWS_PER_FILE = 10_000
METADATA = TableMetadata("5b6c7d8e-0000-4000-8000-00000000beef", SCHEMA, (), {"delta.enableChangeDataFeed": "true"})
FEATURES = frozenset({"deletionVectors"})

MEASURE = """
import sys, time
from tests.ledger.process_cost import bytes_read, peak_kilobytes
start, before = time.perf_counter(), peak_kilobytes()
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable
from airflow_backfill.ledger.open_store import open_store
store = open_store(sys.argv[1])  # which imports the one that is needed
imported, read = time.perf_counter(), bytes_read()
log = DeltaLog(store)
commits = list(log.newest_first(log.head() - int(sys.argv[2]) + 1))
protocol, metadata = log.protocol_and_metadata()
check_readable(protocol)
end = time.perf_counter()
import json
print(json.dumps({
    "milliseconds": round(1000 * (end - start)),
    "of_these_importing": round(1000 * (imported - start)),
    "bytes_read": bytes_read() - read,
    "kilobytes_of_memory": peak_kilobytes() - before,
    "versions": [commits[0].version, commits[-1].version],
    "rows": sum(commit.added.rows for commit in commits),
    "seqs": [commit.txns["build-1/0/0"] for commit in commits],
    "table": metadata.table_id,
}))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table without data files."""
    table = tmp_path_factory.mktemp("large") / "table"
    log = JsonLog(str(table))
    log.land(_commit(0, protocol=Protocol(3, 7, FEATURES, FEATURES), metadata=METADATA))
    for version in range(1, COMMITS):
        # Not by ``land``, which waits for the disk.
        lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions(_commit(version)))
        (table / "_delta_log" / f"{version:020}.json").write_text("".join(lines))
    log.write_checksum()
    deltalake.DeltaTable(table, version=CHECKPOINT).create_checkpoint()
    return table


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


def test_reading_the_newest_commits_costs_little(table: Path, run: Run) -> None:
    runs: list[dict[str, Any]] = [json.loads(run(MEASURE, table, NEWEST)) for _ in range(5)]
    best = min(runs, key=lambda measured: measured["milliseconds"])
    print({key: best[key] for key in ("milliseconds", "of_these_importing", "bytes_read", "kilobytes_of_memory")})
    names = [f"{version:020}.json" for version in range(COMMITS - NEWEST, COMMITS)]
    commits = sum((table / "_delta_log" / name).stat().st_size for name in names)
    checksum = (table / "_delta_log" / f"{COMMITS - 1:020}.crc").stat().st_size
    for measured in runs:
        assert measured["versions"] == [COMMITS - 1, COMMITS - NEWEST]
        assert measured["rows"] == NEWEST * FILES_PER_COMMIT * ROWS_PER_FILE
        assert measured["seqs"] == list(range(COMMITS, COMMITS - NEWEST, -1))
        assert measured["table"] == METADATA.table_id
        assert measured["bytes_read"] < commits + checksum + 10_000
        assert measured["kilobytes_of_memory"] < 30_000


def test_the_log_is_one_to_other_readers(table: Path) -> None:
    opened = deltalake.DeltaTable(table)
    assert opened.version() == COMMITS - 1 and opened.transaction_version("build-1/0/0") == COMMITS
    assert len(opened.file_uris()) == COMMITS * FILES_PER_COMMIT
