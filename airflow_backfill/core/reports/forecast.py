"""What a plan can say about the work ahead: how much, about how long, and whether the log can be caught up with.

An estimate for people, from the sizes in the log and from what was measured (bench/RESULTS.md); no decision rests on
it. What happens is measured while it happens, and a log that grows faster than it is applied ends as NotConverging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.topic_retention import TopicExpiry
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.reports.recommend import Advice
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.core.values.round_size import RoundSize

RECENT = 24 * 3_600_000
"""Milliseconds of the source's past from which its change rate is taken."""
COPY_BYTES = 16_000_000
"""Bytes of data files that a core copies in a second."""
APPLY_ROWS = 35_000
"""Changed rows that a core merges in a second."""
COMMIT_SECONDS = 1.5
"""What a barrier costs beside its rows."""
MERGE_SECONDS = 4.0
"""What a round of the log costs beside its rows."""
MARGIN = 2
"""So many times as long as is expected a topic's history has to stay until people are not warned."""
START_SECONDS = 10.0
"""What starting a Spark application costs."""


@dataclass(frozen=True, slots=True)
class Work:
    """The snapshot that was planned, and with what it will be read."""

    parts: int
    """Files, or partitions of a topic."""
    units: int
    """What a round cannot divide: files, or records."""
    bytes: int
    rows: int | None
    size: RoundSize
    cores: int
    often: float = 1.0
    """How often the bytes are read."""

    @property
    def rounds(self) -> int:
        """Commits of the snapshot: whichever of the two limits of a round is reached first."""
        by_rows = -(-self.rows // self.size.rows) if self.rows is not None else 0
        return min(self.units, max(-(-self.bytes // self.size.bytes), by_rows))

    @property
    def seconds(self) -> float:
        copying = self.bytes * self.often / (COPY_BYTES * self.cores)
        return START_SECONDS + copying + COMMIT_SECONDS * self.rounds


def report(
    plan: Plan,
    work: Work,
    recent: Sequence[Epoch],
    now: int,
    retention: Retention,
    guarantee: str,
    notes: list[str],
    advice: Advice | BackfillError,
    expiry: TopicExpiry | None = None,
) -> dict[str, Any]:
    """Everything that a new plan says about itself, as plain JSON. For the other arguments see ``forecast``; what
    ``expiry`` says is of a topic's history, and of its landing table ``retention``.
    """
    said, why = None, plan.strategy.why
    if isinstance(advice, Advice):
        said = {"strategy": advice.strategy, "why": advice.why}
        why = advice.why if plan.spec.strategy == advice.strategy else why
    else:
        notes = [*notes, f"{advice.message}. Otherwise the build stops at the next such epoch"]
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
        **(found := forecast(work, recent, now, retention)),
        "warnings": [*found["warnings"], *_expiring(expiry, work, now)],
    }


def _expiring(expiry: TopicExpiry | None, work: Work, now: int) -> list[str]:
    left = None if expiry is None else expiry.left(now)
    if left is None or work.seconds * MARGIN < left / 1000:
        return []
    return [
        f"Kafka may delete the first records of the history in {lasting(left / 1000)}, and reading it is expected to "
        f"take {lasting(work.seconds)}: raise the topic's retention.ms, begin later (topic.first), or let the build go "
        "on without what is lost (topic.expired='skip')"
    ]


def forecast(work: Work, recent: Sequence[Epoch], now: int, retention: Retention) -> dict[str, Any]:
    """Plain JSON. ``recent`` are the source's last epochs up to the pinned one, oldest first.

    An epoch that brought half of the table or more is how it was loaded, and not how it changes.
    """
    load = float("inf") if work.rows is None else work.rows / 2
    known = [epoch for epoch in recent if epoch.at > now - RECENT and epoch.rows < load]
    span = max((now - known[0].at) / 1000, 1.0) if known else RECENT / 1000
    rows = sum(epoch.rows for epoch in known) / span
    apply = APPLY_ROWS * work.cores
    pending = len(known) / span * work.seconds
    # Applying what came in while the snapshot was read, and then what came in meanwhile, and so on.
    left = max(1 - rows / apply, 0.0)
    log = (MERGE_SECONDS + rows * work.seconds / apply) / left if left else None
    whole = None if log is None else work.seconds + log
    kept = retention.shorter / 1000
    return {
        "rounds": work.rounds,
        "expected_seconds": {
            "snapshot": round(work.seconds),
            "log": None if log is None else round(log),
        },
        "change": {"epochs_per_hour": round(3600 * len(known) / span, 1), "rows_per_second": round(rows, 1)},
        "apply_rows_per_second": apply,
        "pending_after_snapshot": round(pending),
        "retention_seconds": {"log": retention.log // 1000, "files": retention.files // 1000},
        "warnings": _warnings(whole, kept, rows, apply),
    }


def _warnings(whole: float | None, kept: float, rows: float, apply: float) -> list[str]:
    found = []
    if whole is None:
        found.append(
            f"the source changes {rows:.0f} rows per second, about {apply:.0f} can be applied: the build would end as "
            "NOT_CONVERGING; give it more cores"
        )
    elif whole > kept / 2:
        found.append(
            f"the build is expected to take {whole / 3600:.1f} hours and what it reads is kept for {kept / 3600:.1f}: "
            "raise delta.deletedFileRetentionDuration and delta.logRetentionDuration of the source, or VACUUM later"
        )
    return found


def described(report: dict[str, Any]) -> list[str]:
    """A plan's report as lines for a log."""
    if report["existing"]:
        return ["the build is there already and goes on"]
    expected, change, kept = report["expected_seconds"], report["change"], report["retention_seconds"]
    rows = "an unknown number of" if report["rows"] is None else f"{report['rows']:,}"
    parts, unit = report["parts"]
    seconds = expected["log"]
    log = "and more than can ever be applied" if seconds is None else f"caught up with after {lasting(seconds)}"
    return [
        f"source at epoch {report['snapshot_epoch']}: {rows} rows, {report['bytes']:,} bytes in {parts} "
        f"{unit}, {report['splits']} splits, about {report['rounds']} rounds and {lasting(expected['snapshot'])}",
        f"log: {change['epochs_per_hour']} epochs per hour, {change['rows_per_second']} rows per second against "
        f"{report['apply_rows_per_second']:,} that can be applied; about {report['pending_after_snapshot']} epochs "
        f"pending after the snapshot, {log}",
        f"what is needed stays readable for {lasting(min(kept.values()))} after it was replaced",
        *_kept_by_kafka(report.get("topic_retention")),
        f"strategy {report['strategy']}: {report['why']}",
        *_recommended(report),
        f"commits: {report['commit_guarantee']}",
        *(f"note: {note}" for note in report["notes"]),
        *(f"WARNING: {warning}" for warning in report["warnings"]),
    ]


def _kept_by_kafka(kept: dict[str, int | None] | None) -> list[str]:
    if kept is None:
        return []
    time = "for good, or nobody may see it" if kept["seconds"] is None else lasting(kept["seconds"])
    size = "" if kept["bytes"] is None else f", at most {kept['bytes']:,} bytes of a partition"
    left = (
        ""
        if kept["seconds_left"] is None
        else f"; the first records of the history {lasting(kept['seconds_left'])} more"
    )
    return [f"Kafka keeps the topic's records: {time}{size}{left}"]


def _recommended(report: dict[str, Any]) -> list[str]:
    advice = report["recommended"]
    other = advice is not None and advice["strategy"] != report["strategy"]
    return [f"recommended is strategy {advice['strategy']}: {advice['why']}"] if other else []
