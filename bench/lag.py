"""Measures how far a chain's announcements are behind its source, with a snapshot of large files and a fast writer."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from airflow_backfill.core.model.announcement import Kind, announcement
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.reader import BuildReader
from bench import contenders as c
from bench.tables import Tables

SELECT = ["l_orderkey", "l_linenumber", "l_extendedprice * (1 - l_discount) AS revenue", "l_comment"]
COMMIT_SECONDS = 0.2
"""Time that the writer waits after a commit."""
COMMIT_ROWS = 100
"""Rows of a commit."""
HEAD = (
    "| what | longest round, s | epochs | lag, s: median | worst | lag in epochs: median | worst | goal |",
    "|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Lag:
    """The lag by the times of the commits in the logs of source and target."""

    title: str
    longest_round: float
    seconds: list[float]
    """For each epoch before the snapshot's end: the time until it was announced, or until that end."""
    epochs: list[int]
    """For each announcement: the epochs of the source that were not announced before it."""

    @property
    def row(self) -> str:
        cells = (
            *(self.title, f"{self.longest_round:.1f}", f"{len(self.seconds)}"),
            *(f"{median(self.seconds):.1f}", f"{max(self.seconds):.1f}"),
            *(f"{median(self.epochs):.0f}", f"{max(self.epochs)}", "at most 5 s"),
        )
        return f"| {' | '.join(cells)} |"


def announced(spark: SparkSession, tables: Tables, scale: float, files: int) -> Lag:
    """The lag of a snapshot of lineitem in ``files`` rounds of one file, without a feed, while rows are added."""
    source, target = tables.fresh("events"), tables.fresh("events-target")
    rows = spark.read.format("delta").load(tables.source("lineitem", scale))
    # delta-rs, with which the writer appends, cannot read tables with deletion vectors.
    rows.repartition(files).write.format("delta").option("delta.enableDeletionVectors", "false").save(source)
    c.planned(spark, source, target, (), SELECT, "chain")
    writer = multiprocessing.get_context("spawn").Process(target=_append, args=(source,), daemon=True)
    writer.start()
    c.snapshot(spark, target, RoundSize(bytes=1))
    writer.terminate()
    writer.join()
    title = f"chain: {rows.count():,} rows in {files} rounds, {COMMIT_SECONDS} s between the commits"
    return _lag(source, target, title)


def _append(source: str) -> None:
    """Append rows until the process is ended."""
    rows = DeltaTable(source).to_pyarrow_dataset().head(COMMIT_ROWS)
    while True:
        write_deltalake(source, rows, mode="append")
        time.sleep(COMMIT_SECONDS)


def _lag(source: str, target: str, title: str) -> Lag:
    log = BuildReader(target).log
    news = {version: announcement(log.read(version)) for version in range(log.head() + 1)}
    rounds = [_committed(target, version) for version, found in news.items() if found is None]
    commits = [_committed(source, version) for version in range(DeltaTable(source).version() + 1)]
    seconds, epochs, seen = list[float](), list[int](), 0
    for version, found in news.items():
        if found is None or found.kind is not Kind.EPOCHS:
            continue
        at = _committed(target, version)
        seconds += [at - commit for commit in commits[seen + 1 : found.seen + 1]]
        epochs.append(sum(commit <= at for commit in commits[seen + 1 :]))
        seen = found.seen
    # Epochs that were not announced before the snapshot's end have waited at least until then.
    seconds += [rounds[-1] - commit for commit in commits[seen + 1 :] if commit < rounds[-1]]
    longest = max(after - before for before, after in pairwise(rounds))
    return Lag(title, longest, seconds, epochs)


def _committed(table: str, version: int) -> float:
    return (Path(table) / "_delta_log" / f"{version:020}.json").stat().st_mtime
