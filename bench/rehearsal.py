"""What the rehearsal of a plan predicts, and what happens: the time of the snapshot, and of the log behind it.

The prediction and the build are applications of their own, as they are for a user: Java has to compile again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.rehearsal import Replay
from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run.dry_run import DryRun
from bench import contenders as c
from bench.session import hidden_after, session
from bench.tables import Tables

HEAD = ["| what | predicted, s | took, s | error | goal |", "|---|---|---|---|---|"]
GOAL = "within 30 %"


WORKLOADS: dict[str, tuple[Callable[[Tables, float], str], int]] = {
    "48 of 64 small changes": (lambda tables, scale: tables.changed_copy("orders", scale, 64, 100), 17),
    "24 of 32 epochs by merge": (lambda tables, _: tables.history(32, "merge"), 8),
    "16 of 32 epochs by delete": (lambda tables, _: tables.history(32, "delete"), 16),
}
"""Unlike each other: small changes of a large table, large MERGEs, deletes by vectors. The plan sees the first epochs
(up to the number given), and the others are the log. The deletes are planned later, because vectors grow:
from 8,000 rows a file on, a round has to read the files twice, which a sample of the first epochs cannot know.
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a phase of a build takes."""

    phase: str
    predicted: float
    took: float


def rehearsed(folder: Path, scale: float, key: Sequence[str], columns: Sequence[str], rounds: int) -> list[str]:
    """The medians of ``rounds`` builds of each workload."""
    found = []
    for title in WORKLOADS:
        runs = [_run(folder, title, scale, key, columns) for _ in range(rounds)]
        found += [_row(title, phase) for phase in zip(*runs, strict=True)]
    return [*HEAD, *found]


def _run(folder: Path, title: str, scale: float, key: Sequence[str], columns: Sequence[str]) -> list[Times]:
    report = _alone(_explained, folder, title, scale, key, columns)
    pending, copied, applied = _alone(_built, folder, title, scale, key, columns)
    found, files = report["rehearsal"], report["parts"][0]
    replay = Replay(list(pending), pending[0].at, files, report["bytes"] / files)
    speeds = Speeds(
        found["copy_bytes_per_second"],
        found["apply_rows_per_second"],
        round_seconds=found["round_seconds"],
        epoch_seconds=found["epoch_seconds"],
    )
    applying = found["log_warm_up_seconds"] + speeds.log_seconds(
        len(pending), pending.rows, replay.touched_bytes(0, len(pending))
    )
    copying = found["snapshot_seconds"] - found["start_seconds"]
    times = [Times("snapshot", copying, copied), Times("log", applying, applied)]
    print(f"  {title}: {times}", flush=True)
    return times


def _alone(work: Callable[..., Any], *of: Any) -> Any:
    """``work`` with the same arguments, in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return alone.submit(work, *of).result()


def _explained(folder: Path, title: str, scale: float, key: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """The report of a plan that would be made."""
    with _prepared(folder, title, scale) as (spark, source, target, epoch), hidden_after(spark, source, epoch):
        options = {"name": "bench", "source": source, "target": target, "key": list(key), "select": list(columns)}
        report: dict[str, Any] = DryRun(spark, BackfillSpec.parse(options), 1, Attempt(0, "")).explain()["report"]
    return report


def _built(
    folder: Path, title: str, scale: float, key: Sequence[str], columns: Sequence[str]
) -> tuple[Backlog, float, float]:
    """The epochs of the log, and the seconds of the snapshot and of the log."""
    with _prepared(folder, title, scale) as (spark, source, target, epoch):
        with hidden_after(spark, source, epoch):
            c.planned(spark, source, target, key, columns)
            copied = _timed(lambda: c.snapshot(spark, target, c.WHOLE))
        state = BuildReader(target).state()
        pending = watch_source(state.plan).view(state.reached).pending(state.reached)
        return pending, copied, _timed(lambda: c.consume(spark, target))


@contextmanager
def _prepared(folder: Path, title: str, scale: float) -> Iterator[tuple[SparkSession, str, str, int]]:
    """A new session, the source, a target that does not exist, and the epoch of the plan."""
    make, epoch = WORKLOADS[title]
    spark = session()
    tables = Tables(spark, folder)
    try:
        yield spark, make(tables, scale), tables.fresh(f"rehearsed-{title.replace(' ', '-')}"), epoch
    finally:
        spark.stop()


def _row(title: str, runs: Sequence[Times]) -> str:
    predicted, took = _told([run.predicted for run in runs]), _told([run.took for run in runs])
    error = median(run.took / run.predicted for run in runs) - 1
    return f"| {runs[0].phase}, {title} | {predicted} | {took} | {error:+.0%} | {GOAL} |"


def _told(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.1f} ({', '.join(f'{one:.1f}' for one in seconds)})"


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
