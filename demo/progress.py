"""The lines that a demo prints while a build runs and at its end. They come only from the targets' logs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader


@dataclass
class Follower:
    """Prints a line after each change of a build's progress."""

    target: Path
    told: str = ""
    rows: int = 0
    at: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        try:
            state = BuildReader(str(self.target)).state()
            view = watch_source(state.plan).view(state.reached)
        except BackfillError:
            return  # not planned yet
        summary = summarize(state)
        rows = sum(summary["rows"].values())
        line = f"{summary['phase']:<11} {summary['percent']:5.1f} %  {rows:>10,} rows"
        pending = f"{len(view.pending(state.reached)):>3} epochs pending"
        if line == self.told:
            return
        now = time.monotonic()
        rate = (rows - self.rows) / (now - self.at) if self.told and rows > self.rows else 0.0
        print(f"  {self.target.name:<9} {line} {rate:>9,.0f} rows/s  {pending}  {_left(summary, rate)}", flush=True)
        self.told, self.rows, self.at = line, rows, now


def _left(summary: dict[str, Any], rate: float) -> str:
    """The time left of a snapshot; for a topic also the records left, by partition."""
    if summary["phase"] != "snapshot" or summary["phase_percent"] == 100:
        return ""
    said, read = [], summary["rows"]["consuming_snapshot"]
    if rate and summary["phase_percent"]:
        said.append(f"about {(read * 100 / summary['phase_percent'] - read) / rate:.0f} s of the snapshot left")
    if summary["partitions"]:
        by_partition = " + ".join(f"{one['left']:,}" for one in summary["partitions"])
        said.append(f"records left by partition: {by_partition}")
    return ", ".join(said)


def account(target: Path) -> list[str]:
    """Lines about the finished build: rows, proof, and the time of each phase."""
    reader = BuildReader(str(target))
    summary = summarize(reader.state())
    certificate = summary["certificate"]
    spent: dict[str, float] = {}
    before = 0
    for commit in sorted(reader.log.newest_first(), key=lambda commit: commit.version):
        record = barrier_record(commit)
        if record is not None and before:
            spent[record.phase.value] = spent.get(record.phase.value, 0) + (commit.timestamp - before) / 1000
        before = commit.timestamp
    phases = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in spent.items())
    rows = summary["rows"]
    return [
        f"{target.name}: planned at epoch {summary['snapshot_epoch']}, handed over at epoch {summary['handoff']}, "
        f"stands at epoch {summary['epoch']}",
        f"  rows written: {rows['consuming_snapshot']:,} from the snapshot, {rows['consuming_log_store']:,} from the "
        f"log, {rows['consuming_upstream']:,} since the hand-off",
        *(_seam(one) for one in summary["partitions"] or ()),
        f"  proven equal at epoch {certificate['epoch']}: {certificate['rows']:,} rows, digest "
        f"{certificate['digest'][:16]}… over {certificate['buckets']} buckets",
        f"  time between commits: {phases}",
        f"  more: table-backfill status {target}; log: {target}/_delta_log; attempts: {target}.backfill/attempts",
    ]


def _seam(partition: dict[str, Any]) -> str:
    seam, landed = partition["seam"], partition["landed"]
    kafka = "nothing from Kafka" if seam is None else f"{partition['read']:,} records from Kafka up to offset {seam:,}"
    table = "nothing landed" if landed is None else f"then the landing table, up to offset {landed:,}"
    return f"  partition {partition['partition']}: {kafka}, {table}"
