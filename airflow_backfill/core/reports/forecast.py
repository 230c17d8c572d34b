"""The forecast of a plan: how much work, about how long, and whether the build can catch up with the log.

An estimate for operators, from sizes in the log and from measured rates (bench/RESULTS.md). Only ``strategy="auto"``
depends on it. A log that grows faster than the build applies it ends the build as NotConverging, whatever was forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.topic_retention import TopicExpiry
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.reports.recommend import Advice
from airflow_backfill.core.reports.rehearsal import Replay, course, rehearse
from airflow_backfill.core.reports.rehearsal import described as rehearsal_lines
from airflow_backfill.core.reports.sample import is_initial_load
from airflow_backfill.core.reports.speeds import PROOF_READS, PROOF_TO_COPY, Speeds
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.core.values.round_size import RoundSize

RECENT = 24 * 3_600_000
"""Milliseconds of the source's history from which the change rate is estimated."""
EXPIRY_MARGIN = 2
"""The plan warns unless Kafka keeps the history for this many times the expected duration."""


@dataclass(frozen=True, slots=True)
class Work:
    """The planned snapshot, and the resources to read it."""

    parts: int
    """Files, or partitions of a topic."""
    units: int
    """Number of the smallest parts of a round: files, or records."""
    bytes: int
    rows: int | None
    size: RoundSize
    speeds: Speeds
    often: float = 1.0
    """How many times the bytes are read."""
    planning: float = 0.0
    """Seconds since the snapshot's epoch was pinned."""
    cores: int = 1
    """Cores that do it."""

    @property
    def rounds(self) -> int:
        """Commits of the snapshot: the larger number that the two limits of a round give."""
        by_rows = -(-self.rows // self.size.rows) if self.rows is not None else 0
        return min(self.units, max(-(-self.bytes // self.size.bytes), by_rows))

    @property
    def seconds(self) -> float:
        speeds = self.speeds
        begins = speeds.start_seconds + speeds.warm_up_seconds
        return begins + self.bytes * self.often / speeds.copy_bytes + speeds.commit_seconds * self.rounds

    def cost(self, proof: ProofKind, log_seconds: float) -> dict[str, int]:
        """What the whole build is going to cost, as plain JSON. ``core_seconds``: for how long all cores are reserved
        from the snapshot to the end of the proof.
        """
        proving = self.bytes * PROOF_TO_COPY[proof] / self.speeds.copy_bytes
        return {
            "cores": self.cores,
            "core_seconds": round(self.cores * (self.seconds + log_seconds + proving)),
            "read_bytes": round(self.bytes * (self.often + PROOF_READS[proof])),
            "written_bytes": self.bytes,
        }

    def replay(self, recent: Sequence[Epoch], at: int) -> Replay:
        """The changes among the ``recent`` epochs, as they were listed at a time."""
        return Replay(changes(self, recent, at), at, self.parts, self.bytes / max(self.parts, 1))


def report(
    plan: Plan,
    work: Work,
    recent: Sequence[Epoch],
    at: int,
    retention: Retention,
    guarantee: str,
    notes: list[str],
    advice: Advice | BackfillError,
    expiry: TopicExpiry | None = None,
) -> dict[str, Any]:
    """The report of a new plan, as plain JSON. Other arguments as for ``forecast``; for a topic, ``expiry`` is of its
    history and ``retention`` of its landing table.
    """
    said, why = None, plan.strategy.why
    now = at + round(1000 * work.planning)
    if isinstance(advice, Advice):
        said = {"strategy": advice.strategy, "why": advice.why}
        why = advice.why if plan.spec.strategy == advice.strategy else why
    else:
        notes = [*notes, f"{advice.message}. Without this, the build stops at the next such epoch"]
    found = forecast(work, recent, at, retention)
    log = found["expected_seconds"]["log"]
    return {
        "existing": False,
        "strategy": plan.spec.strategy,
        "why": why,
        "recommended": said,
        "snapshot_epoch": plan.source.epoch,
        "parts": [work.parts, plan.strategy.part_unit],
        "bytes": work.bytes,
        "rows": work.rows,
        "splits": len(plan.splits),
        "commit_guarantee": guarantee,
        "notes": notes,
        "topic_retention": None if expiry is None else expiry.to_json(now),
        "rehearsal": rehearse(work.replay(recent, at), work.seconds, work.speeds, work.size, work.planning),
        "expected_cost": None if log is None else work.cost(plan.spec.proof, log),
        **found,
        "warnings": [*found["warnings"], *_expiring(expiry, work, now)],
    }


def _expiring(expiry: TopicExpiry | None, work: Work, now: int) -> list[str]:
    left = None if expiry is None else expiry.left(now)
    if left is None or work.seconds * EXPIRY_MARGIN < left / 1000:
        return []
    return [
        f"Kafka may delete the first records of the history in {lasting(left / 1000)}, but reading it takes about "
        f"{lasting(work.seconds)}: raise the topic's retention.ms, begin later (topic.first), or let the build go on "
        "without deleted records (topic.expired='skip')"
    ]


def forecast(work: Work, recent: Sequence[Epoch], at: int, retention: Retention) -> dict[str, Any]:
    """Plain JSON. ``recent``: the source's last epochs up to the pinned one, oldest first, as they were listed ``at`` a
    time in milliseconds.

    An initial load counts as no change.
    """
    known = changes(work, recent, at)
    # The clock of the source's writers may be ahead of the planner's.
    span = max((max(at, known[-1].at) - known[0].at) / 1000, 1.0) if known else RECENT / 1000
    rows = sum(epoch.rows for epoch in known) / span
    apply = round(work.speeds.apply_rows)
    going = course(work.replay(recent, at), work.seconds, work.speeds, work.size, planning=work.planning)
    log = going.caught_up
    whole = None if log is None else work.planning + work.seconds + log
    kept = retention.shorter / 1000
    return {
        "rounds": work.rounds,
        "expected_seconds": {
            "snapshot": round(work.seconds),
            "log": None if log is None else round(log),
        },
        "change": {"epochs_per_hour": round(3600 * len(known) / span, 1), "rows_per_second": round(rows, 1)},
        "apply_rows_per_second": apply,
        "pending_after_snapshot": going.pending,
        "retention_seconds": {"log": retention.log // 1000, "files": retention.files // 1000},
        "warnings": _warnings(whole, kept, rows, apply),
    }


def changes(work: Work, recent: Sequence[Epoch], at: int) -> list[Epoch]:
    """The epochs of the last hours that are no initial load."""
    return [epoch for epoch in recent if epoch.at > at - RECENT and not is_initial_load(epoch, work.rows)]


def _warnings(whole: float | None, kept: float, rows: float, apply: float) -> list[str]:
    found = []
    if whole is None:
        found.append(
            f"the source changes {rows:.0f} rows per second, but the build applies only about {apply:.0f}: it would "
            "end as NOT_CONVERGING; give Spark more cores"
        )
    elif whole > kept / 2:
        found.append(
            f"the build takes about {whole / 3600:.1f} hours, but the source keeps replaced files and its log for only "
            f"{kept / 3600:.1f} hours: raise delta.deletedFileRetentionDuration and delta.logRetentionDuration of the "
            "source, or VACUUM later"
        )
    return found


def described(report: dict[str, Any]) -> list[str]:
    """A plan's report as lines for a log."""
    if report["existing"]:
        return ["the build exists already and goes on"]
    expected, change, kept = report["expected_seconds"], report["change"], report["retention_seconds"]
    rows = "an unknown number of" if report["rows"] is None else f"{report['rows']:,}"
    parts, unit = report["parts"]
    seconds = expected["log"]
    log = "and the build never catches up" if seconds is None else f"caught up {lasting(seconds)} later"
    return [
        f"source at epoch {report['snapshot_epoch']}: {rows} rows, {report['bytes']:,} bytes in {parts} "
        f"{unit}, {report['splits']} splits, about {report['rounds']} rounds and {lasting(expected['snapshot'])}",
        f"log: {change['epochs_per_hour']} epochs per hour, {change['rows_per_second']} rows per second; the build "
        f"applies about {report['apply_rows_per_second']:,} rows per second; about {report['pending_after_snapshot']} "
        f"epochs pending after the snapshot, {log}",
        f"the source keeps replaced files and its log for {lasting(min(kept.values()))}",
        *_cost(report.get("expected_cost")),
        *_kept_by_kafka(report.get("topic_retention")),
        f"strategy {report['strategy']}: {report['why']}",
        *_recommended(report),
        *(rehearsal_lines(report["rehearsal"]) if "rehearsal" in report else ()),
        f"commits: {report['commit_guarantee']}",
        *(f"note: {note}" for note in report["notes"]),
        *(f"WARNING: {warning}" for warning in report["warnings"]),
    ]


def _cost(cost: dict[str, int] | None) -> list[str]:
    if cost is None:
        return []
    cores = "1 core" if cost["cores"] == 1 else f"{cost['cores']:,} cores"
    return [
        f"cost: about {cost['core_seconds'] / 3600:,.2f} core hours on {cores} with the proof; reads "
        f"{cost['read_bytes']:,} bytes, writes {cost['written_bytes']:,}, and the changes in addition"
    ]


def _kept_by_kafka(kept: dict[str, int | None] | None) -> list[str]:
    if kept is None:
        return []
    time = "without a time limit, or unknown" if kept["seconds"] is None else lasting(kept["seconds"])
    size = "" if kept["bytes"] is None else f", at most {kept['bytes']:,} bytes per partition"
    left = (
        ""
        if kept["seconds_left"] is None
        else f"; the first records of the history may be deleted in {lasting(kept['seconds_left'])}"
    )
    return [f"Kafka keeps the topic's records: {time}{size}{left}"]


def _recommended(report: dict[str, Any]) -> list[str]:
    advice = report["recommended"]
    other = advice is not None and advice["strategy"] != report["strategy"]
    return [f"recommended: strategy {advice['strategy']}: {advice['why']}"] if other else []
