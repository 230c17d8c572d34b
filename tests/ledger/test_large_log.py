"""What reading the end of a large log costs: a fresh process, its imports included."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from tests.ledger.large_log import COMMITS, FILES_PER_COMMIT, METADATA, ROWS_PER_FILE, write_large_log

pytestmark = pytest.mark.slow
Run = Callable[..., str]
NEWEST = 50

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
    table = tmp_path_factory.mktemp("large") / "table"
    write_large_log(table)
    return table


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
    assert opened.version() == COMMITS - 1
    assert opened.transaction_version("build-1/0/0") == COMMITS
    assert len(opened.file_uris()) == COMMITS * FILES_PER_COMMIT
