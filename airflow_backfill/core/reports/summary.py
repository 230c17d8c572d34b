"""The summary of a build's committed state, for command line, XCom and task state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import to_json
from airflow_backfill.core.reports.progress import Speed, percent, phase_percent, seconds_left
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.strategy import strategy_of
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.phase import Phase

ALARM_FRACTION = 0.25
"""Warn when less than this fraction of the source's retention is left."""


def summarize(state: BuildState) -> dict[str, Any]:
    """Plain JSON. Numbers count committed work only."""
    plan, newest, totals, control = state.plan, state.newest, state.totals, state.control
    strategy = strategy_of(plan)
    partitions = strategy.partitions(state)
    return {
        "build": plan.build,
        "name": plan.spec.name,
        "source": plan.spec.source,
        "topic": plan.spec.topic_name,
        "target": plan.spec.target,
        "strategy": plan.spec.strategy,
        "phase": state.phase.value,
        "snapshot_epoch": plan.source.epoch,
        "epoch": state.applied,
        "seen_epoch": state.seen,
        "handoff": state.handoff,
        "percent": percent(state),
        "phase_percent": phase_percent(state),
        "read": asdict(strategy.progress(state)),
        "snapshot_bytes": totals.snapshot_bytes,
        "lanes": state.layout.lanes,
        "rows": {
            "consuming_snapshot": totals.snapshot_rows,
            "consuming_log_store": totals.log_rows,
            "consuming_upstream": totals.upstream_rows,
        },
        "repeated_rows": totals.repeated_rows,
        "undecodable_rows": totals.undecodable_rows,
        "unwanted_rows": totals.unwanted_rows,
        "epochs": {"log": totals.log_epochs, "upstream": totals.upstream_epochs},
        "pending": _pending(state),
        "part": _part(state),
        "partitions": None if partitions is None else [partition(split) for split in partitions.values()],
        "waits": newest.record.waits if newest is not None else None,
        "bound": state.bound.value if state.bound is not None else None,
        "control": {
            "number": control.number,
            "paused": control.paused,
            "rate": control.rate,
            "byte_rate": control.byte_rate,
            "held": control.held,
            "cancelled": control.cancelled,
            "skips": control.skips,
            "dead_letters": control.dead_letters,
        },
        "certificate": None if state.certificate is None else _certificate(state),
        "cost": None if state.cost is None else state.cost.to_json(),
        "attempt": newest.record.attempt if newest is not None else None,
        "target_version": newest.version if newest is not None else plan.target_version,
        "at": newest.at if newest is not None else None,
    }


def told(state: BuildState, source: Ahead | None, speed: Speed | None, now: int) -> dict[str, Any]:
    """The summary with how far the source is ahead, speed and time left: what people are told of a build, everywhere.
    ``source`` is None if it cannot be read; ``now`` and ``seen`` are milliseconds since 1970.
    """
    parts = {"lag": None if source is None else lag(state, source, now), "unread": unread(state, now)}
    left = [part["readable"] for part in parts.values() if part is not None and part["readable"] is not None]
    return {
        **summarize(state),
        **parts,
        "history_left": min(left, default=None),
        "rows_per_second": None if speed is None else round(speed.rows, 1),
        "seconds_left": seconds_left(state, source, speed),
        "seen": now,
    }


def lag(state: BuildState, source: Ahead, now: int) -> dict[str, int | None]:
    """How far the source is ahead of the committed state, as plain JSON; times are milliseconds.

    ``age``: how long the oldest pending epoch has been pending. ``readable``: how long the source still keeps what the
    build needs, pinned files included; they were replaced by that epoch at the earliest.
    ``rows`` is None if the pending epochs were not read. A deleted epoch is as old as the source keeps epochs.
    """
    oldest = source.oldest(state.reached)
    age = 0 if oldest is None else _age(oldest, source.kept, now)
    return {
        "head": source.head,
        "epochs": source.count(state.reached),
        "rows": source.rows(state.reached),
        "age": age,
        "readable": None if source.kept is None or oldest is None else max(source.kept - age, 0),
        "kept": source.kept,
    }


def unread(state: BuildState, now: int) -> dict[str, int] | None:
    """How long Kafka still keeps the first unread record of the history (``readable``), and how long it keeps a record
    (``kept``), in milliseconds. None if nothing is unread, the build is cancelled, or Kafka's retention is unlimited or
    unknown.

    Both are as the build's newest round has found them. Kafka may delete earlier by ``retention.bytes``.
    """
    partitions = strategy_of(state.plan).partitions(state)
    first = [
        (split.expires, split.oldest or 0) for split in (partitions or {}).values() if split.left and split.expires
    ]
    if not first or state.phase is Phase.CANCELLED:
        return None
    expires, oldest = min(first)
    return {"readable": max(expires - now, 0), "kept": expires - oldest}


def _age(epoch: Epoch, kept: int | None, now: int) -> int:
    gone = isinstance(epoch.stop, HistoryLost)
    return (kept or 0) if gone else max(now - epoch.at, 0)


def running_out(found: Mapping[str, Any]) -> str | None:
    """A warning if the source or Kafka will soon delete what the build still needs, by what is ``told`` of it; else
    None.
    """
    for name, warning in _RUNNING_OUT.items():
        part = found.get(name) or {}
        readable, kept = part.get("readable"), part.get("kept")
        if readable is not None and kept is not None and readable <= kept * ALARM_FRACTION:
            return warning.format(left=lasting(readable / 1000))
    return None


_RUNNING_OUT = {
    "unread": "Kafka may delete the first unread record of the topic in {left}: raise the topic's retention.ms, or "
    "lift what holds the build back",
    "lag": "the oldest epoch that the build needs stays readable for {left} more: raise "
    "delta.deletedFileRetentionDuration and delta.logRetentionDuration of the source, or stop VACUUM on it",
}


def _certificate(state: BuildState) -> dict[str, Any]:
    certificate = state.certificate
    assert certificate is not None
    return {
        "epoch": certificate.epoch,
        "target_version": certificate.target_version,
        "rows": certificate.rows,
        "digest": certificate.digest,
        "buckets": certificate.buckets,
        "at": certificate.at,
        "row_hash": certificate.row_hash.value,
        "kind": certificate.kind.value,
        "gone": certificate.gone,
        "lost": certificate.lost,
    }


def partition(split: Split) -> dict[str, Any]:
    """A partition of the topic, as plain JSON. Offsets are inclusive, except ``end``: the next offset of a reader.

    ``left`` is the number of unread records when the last round began, ``oldest`` the time of the first of them.
    History before the offset ``floor`` comes from the landing table; ``lost`` counts offsets that neither has.
    """
    word, *at = to_json(split.state)
    return {
        "partition": split.partition,
        "state": word,
        "offset": at[0] if at else None,
        "target": split.target,
        "left": split.left,
        "oldest": split.oldest if split.left else None,
        "end": split.end,
        "read": split.read,
        "written": split.written,
        "landed": split.landed,
        "seam": split.cut,
        "floor": split.floor,
        "lost": split.lost,
    }


def _pending(state: BuildState) -> dict[str, int | None] | None:
    """What was pending when the newest record was written, without the epochs that are applied by now."""
    pending = state.newest.record.pending if state.newest is not None else None
    if pending is None:
        return None
    epochs = max(pending.head - state.reached, 0)
    rows = pending.rows if epochs == pending.epochs else None if epochs else 0
    return {"epochs": epochs, "rows": rows, "head": pending.head, "at": pending.at}


def _part(state: BuildState) -> dict[str, int] | None:
    part = state.part
    return None if part is None else {"epoch": part.epoch, "done": part.done, "of": part.of}
