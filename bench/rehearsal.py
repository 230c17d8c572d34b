"""What the rehearsal of a plan predicts, and what happens: the time of the snapshot, and of the log behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.rehearsal import Replay
from airflow_backfill.core.reports.speeds import Speeds
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
    "24 of 32 epochs by delete": (lambda tables, _: tables.history(32, "delete"), 8),
}
"""Unlike each other: small changes of a large table, large MERGEs, deletes by vectors. The plan sees the first quarter
of the epochs, and the others are the log.
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a phase of a build takes."""

    phase: str
    predicted: float
    took: float


def rehearsed(folder: Path, scale: float, key: Sequence[str], columns: Sequence[str], rounds: int) -> list[str]:
    """The medians of ``rounds`` builds of each workload, each in a session of its own, as a plan and its build are."""
    found = []
    for title in WORKLOADS:
        runs = []
        for _ in range(rounds):
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                runs.append(alone.submit(_in_a_session, folder, title, scale, key, columns).result())
            print(f"  {title}: {runs[-1]}", flush=True)
        found += [_row(title, phase) for phase in zip(*runs, strict=True)]
    return [*HEAD, *found]


def _in_a_session(folder: Path, title: str, scale: float, key: Sequence[str], columns: Sequence[str]) -> list[Times]:
    make, epoch = WORKLOADS[title]
    spark = session()
    tables = Tables(spark, folder)
    try:
        return _measured(spark, tables, title, make(tables, scale), epoch, key, columns)
    finally:
        spark.stop()


def _measured(
    spark: SparkSession,
    tables: Tables,
    title: str,
    source: str,
    epoch: int,
    key: Sequence[str],
    columns: Sequence[str],
) -> list[Times]:
    target = tables.fresh(f"rehearsed-{title.replace(' ', '-')}")
    with hidden_after(spark, source, epoch):
        report, speeds = _predicted(spark, source, target, key, columns)
        c.planned(spark, source, target, key, columns)
        copied = _timed(lambda: c.snapshot(spark, target, c.WHOLE))
    state = BuildReader(target).state()
    pending = watch_source(state.plan).view(state.reached).pending(state.reached)
    files = report["parts"][0]
    replay = Replay(list(pending), pending[0].at, files, report["bytes"] / files)
    applying = speeds.log_seconds(len(pending), pending.rows, replay.touched_bytes(0, len(pending)))
    copying = report["rehearsal"]["snapshot_seconds"] - speeds.start_seconds
    applied = _timed(lambda: c.consume(spark, target))
    return [Times("snapshot", copying, copied), Times("log", applying, applied)]


def _predicted(
    spark: SparkSession, source: str, target: str, key: Sequence[str], columns: Sequence[str]
) -> tuple[dict[str, Any], Speeds]:
    """The report of a plan that would be made, and the speeds that it measured."""
    options = {"name": "bench", "source": source, "target": target, "key": list(key), "select": list(columns)}
    report = DryRun(spark, BackfillSpec.parse(options), 1, Attempt(0, "")).explain()["report"]
    found = report["rehearsal"]
    speeds = Speeds(
        found["copy_bytes_per_second"],
        found["apply_rows_per_second"],
        round_seconds=found["round_seconds"],
        epoch_seconds=found["epoch_seconds"],
        start_seconds=found["start_seconds"],
    )
    return report, speeds


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
