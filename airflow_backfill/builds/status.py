"""The status of a build, as text and as JSON: its committed state, and how far the source is ahead."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow_backfill.builds.speed import recent_speed, seconds_left
from airflow_backfill.builds.waiting import waits_for
from airflow_backfill.core.errors import BackfillError, HistoryLost
from airflow_backfill.core.reports.summary import lag, running_out, summarize
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.target_table.rules import check_rules
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import obey
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader

SHOWN_ATTEMPTS = 5
SHOWN_PARTITIONS = 8


def status(target: str) -> dict[str, Any]:
    """The summary of the committed state, the current lag, what the build waits for, and the last attempts."""
    now = time.time_ns() // 1_000_000
    reader = BuildReader(target)
    state = reader.state()
    control = obey(state.control, reader.commands(state.plan.build))
    source, trouble = _source(state, reader.properties)
    speed = recent_speed(reader.log, state)
    return {
        **summarize(state),
        "lag": None if source is None else lag(state, source, now),
        "rows_per_second": None if speed is None else round(speed.rows, 1),
        "seconds_left": seconds_left(state, source, speed),
        "ordered": control.number,
        "waits_for": waits_for(state, control, source, trouble, now),
        "attempts": _attempts(reader.control, max((one.record.generation for one in state.known), default=0)),
        "seen": now,
    }


def as_text(found: dict[str, Any]) -> str:
    """The status as about a dozen lines."""
    rows, read = found["rows"], found["read"]
    lines = [
        f"{found['name']}: {found['phase']}, {found['percent']} %{_ahead(found)}",
        f"  source    {found['source']}, planned at epoch {found['snapshot_epoch']}",
        f"  target    {found['target']}, version {found['target_version']}, {_stands(found)}",
        f"  {read['unit']:<9} {read['done']:,} of {read['of']:,}",
        f"  rows      {rows['consuming_snapshot']:,} snapshot, {rows['consuming_log_store']:,} log, "
        f"{rows['consuming_upstream']:,} upstream{_no_rows(found)}",
        f"  pending   {_pending(found['lag'])}",
        *_warnings(found["lag"]),
        *(f"  waits for {reason}" for reason in found["waits_for"]),
        *([f"  still     {found['waits']}"] if found["waits"] else []),
        *_in_force(found),
        *_partitions(found),
    ]
    if found["certificate"] is not None:
        proof = found["certificate"]
        what = f"{proof['rows']:,} rows at epoch {proof['epoch']}"
        lines.append(f"  proven    {what}, {proof['kind']}, {proof['digest']}")
        if proof["gone"]:
            lines.append(f"            Kafka has deleted {proof['gone']:,} records since: counted, not compared")
    for one in found["attempts"]:
        lines.append(f"  attempt   {one['generation']} {one['task']}: {one['outcome'] or 'no outcome yet'}")
    return "\n".join(lines)


def _source(state: BuildState, rules: Mapping[str, str]) -> tuple[SourceView | None, BackfillError | None]:
    """The source if it can be read, and the error that stops the build. Deleted epochs are in the source's view."""
    try:
        source = watch_source(state.plan).view(state.reached)
    except BackfillError as error:
        return None, error
    try:
        check_source(state.plan, source, state.reached, state.stands)
    except HistoryLost:
        return source, None
    except BackfillError as error:
        return None, error
    try:
        check_rules(state.plan, state.phase, rules)
    except BackfillError as error:
        return source, error
    return source, None


def _attempts(control: ControlFolder, known: int) -> list[dict[str, Any]]:
    found = []
    for generation, document in control.attempts(SHOWN_ATTEMPTS, known):
        outcome = control.outcome(Attempt(generation, document["attempt"]))
        code = None if outcome is None else outcome["code"]
        found.append({"generation": generation, "task": document.get("task"), "outcome": code})
    return found


def _ahead(found: dict[str, Any]) -> str:
    speed, left = found["rows_per_second"], found["seconds_left"]
    said = [] if speed is None else [f"{speed:,.0f} rows/s"]
    if left is not None:
        said.append(f"{_duration(left)} left")
    return f" ({', '.join(said)})" if said else ""


def _no_rows(found: dict[str, Any]) -> str:
    counts = {name: found[f"{name}_rows"] for name in ("undecodable", "unwanted", "repeated")}
    return "".join(f", {count:,} {name}" for name, count in counts.items() if count)


def _stands(found: dict[str, Any]) -> str:
    part = found["part"]
    where = "before the snapshot's epoch" if found["epoch"] is None else f"at epoch {found['epoch']}"
    where += "" if found["seen_epoch"] in (None, found["epoch"]) else f", announced through epoch {found['seen_epoch']}"
    where += "" if part is None else f" and {part['done']} of {part['of']} parts of epoch {part['epoch']}"
    return where if found["handoff"] is None else f"{where}, hand-off at epoch {found['handoff']}"


def _pending(lag: dict[str, int] | None) -> str:
    if lag is None:
        return "unknown, because the source cannot be read"
    if not lag["epochs"]:
        return f"nothing, the source is at epoch {lag['head']}"
    since = _duration(lag["age"] // 1000)
    return f"{lag['epochs']:,} epochs, about {lag['rows']:,} rows, up to epoch {lag['head']}; the oldest for {since}"


def _warnings(lag: dict[str, int | None] | None) -> list[str]:
    warning = None if lag is None else running_out(lag)
    return [] if warning is None else [f"  WARNING   {warning}"]


def _in_force(found: dict[str, Any]) -> list[str]:
    control = found["control"]
    said = [name for name in ("paused", "held", "cancelled", "skips") if control[name]]
    if control["rate"] is not None:
        said.append(f"{control['rate']:,} rows/s at most")
    if control["byte_rate"] is not None:
        said.append(f"{control['byte_rate']:,} bytes/s at most")
    return [f"  in force  {', '.join(said)}"] if said else []


def _partitions(found: dict[str, Any]) -> list[str]:
    """The unfinished partitions of a topic, those with the most records left first."""
    behind = [one for one in found["partitions"] or () if one["state"] != "finished"]
    behind.sort(key=lambda one: -one["left"])
    lines = [
        f"  partition {one['partition']}: {one['state'].replace('_', ' ')} at {one['offset']}, {one['left']:,} records "
        f"left{_age(one['oldest'], found['seen'])}, landed up to {one['landed']}"
        for one in behind[:SHOWN_PARTITIONS]
    ]
    more = len(behind) - len(lines)
    return lines + ([f"  and {more} more unfinished partitions"] if more else [])


def _age(oldest: int | None, now: int) -> str:
    return "" if oldest is None else f", the oldest is {_duration(max(now - oldest, 0) // 1000)} old"


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
