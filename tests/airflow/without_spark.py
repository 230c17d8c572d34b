"""Sources and builds of tests, without Spark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import Commit, FileTotals
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.testing.applications import main
from airflow_backfill.testing.json_log import JsonLog

FILES, ROWS = 4, 40
WHOLE = ("plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
TWENTY_DAYS_MS = 20 * 24 * 3_600_000


def make_source(path: Path, properties: Mapping[str, str] | None = None) -> Path:
    """A Delta table with change data feed, in a few files."""
    configuration = {"delta.enableChangeDataFeed": "true", **(properties or {})}
    for n in range(FILES):
        part = pa.table({"id": pa.array(range(n * ROWS, (n + 1) * ROWS), pa.int64())})
        write_deltalake(path, part, mode="append", configuration=configuration)
    return path


def commit_to(source: Path, epochs: int = 1, at: float | None = None) -> None:
    """More epochs of the source; ``at`` is when, in seconds since 1970, if not now."""
    log, then = JsonLog(str(source)), int(1000 * (time.time() if at is None else at))
    for _ in range(epochs):
        log.land(Commit(log.head + 1, then, "WRITE", added=FileTotals(1, 9, 1), data_change=True))


def long_ago(table: Path) -> None:
    """Date all commits of a table back by twenty days."""
    for commit in (table / "_delta_log").glob("*.json"):
        text = re.sub(r'(?<="timestamp":)\d+', lambda found: str(int(found[0]) - TWENTY_DAYS_MS), commit.read_text())
        commit.write_text(text)


def foreign(target: Path, operation: str = "DELETE", **fields: Any) -> None:
    """A commit of somebody else, which removes rows unless told otherwise."""
    log, fields = JsonLog(str(target)), fields or {"removed": FileTotals(1), "data_change": True}
    log.land(Commit(log.head + 1, operation=operation, **fields))


def order(target: Path, verb: Verb, **options: Any) -> None:
    reader = BuildReader(str(target))
    state = reader.state()
    reader.control.order(state.plan.build, Command(verb, **options), floor=state.control.number)


def built(source: Path, target: Path, *applications: str, strategy: str = "snapshot", **options: Any) -> BuildState:
    """The state after these applications ran, each in an attempt of its own."""
    spec = {"name": "orders", "source": str(source), "target": str(target), "key": ["id"], "strategy": strategy}
    for application in applications:
        line = ["--target", str(target)]
        line += ["--spec", json.dumps(spec)] if application == "plan" else []
        line += ["--max-lag-epochs", "0"] if application in ("consume_log", "catch_up") else []
        for name, value in options.items():
            line += [f"--{name}", str(value)] if application in ("plan", "snapshot") else []
        outcome = main(application, line)
        assert outcome["code"] == "OK", outcome
    return BuildReader(str(target)).state()
