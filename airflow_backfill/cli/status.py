"""Where a build is, for people and as JSON: committed facts, and how far the source is ahead of them."""

from __future__ import annotations

import time
from typing import Any

from airflow_backfill.core.control import obey
from airflow_backfill.core.summary import summarize
from airflow_backfill.ledger.reader import BuildReader, SourceWatcher


def status(target: str) -> dict[str, Any]:
    """The summary of the committed state, the source's lag now, and the last attempts."""
    reader = BuildReader(target)
    state = reader.state()
    view = SourceWatcher(state.plan).view(state.reached)
    pending = view.pending(state.reached)
    control = obey(state.control, reader.commands(state.plan.build))
    stops = [epoch for epoch in pending if epoch.stop is not None]
    attempts = reader.control.attempts()[-5:]
    return {
        **summarize(state),
        "lag": {"head": view.head, "epochs": len(pending), "rows": sum(epoch.rows for epoch in pending)},
        "stops_at": {"epoch": stops[0].number, "error": str(stops[0].stop)} if stops else None,
        "ordered": control.number,
        "attempts": [{"generation": number, "task": document.get("task")} for number, document in attempts],
        "seen": time.time_ns() // 1_000_000,
    }


def as_text(found: dict[str, Any]) -> str:
    """A dozen lines."""
    rows, control, certificate = found["rows"], found["control"], found["certificate"]
    lines = [
        f"{found['name']}: {found['phase']} {found['percent']} %",
        f"  source   {found['source']} at epoch {found['lag']['head']}, snapshot at {found['snapshot_epoch']}",
        f"  target   {found['target']} at epoch {found['epoch']}, version {found['target_version']}",
        f"  files    {found['files']['done']} of {found['files']['of']}",
        f"  rows     {rows['consuming_snapshot']:,} snapshot, {rows['consuming_log_store']:,} log, "
        f"{rows['consuming_upstream']:,} upstream",
        f"  pending  {found['lag']['epochs']} epochs, about {found['lag']['rows']:,} rows",
    ]
    if found["handoff"] is not None:
        lines.append(f"  hand-off at epoch {found['handoff']}")
    if certificate is not None:
        lines.append(
            f"  proven   {certificate['rows']:,} rows at epoch {certificate['epoch']}: {certificate['digest']}"
        )
    in_force = [name for name in ("paused", "held", "cancelled") if control[name]]
    if control["rate"] is not None:
        in_force.append(f"{control['rate']} rows/s")
    if in_force:
        lines.append(f"  in force {', '.join(in_force)}")
    if found["ordered"] > control["number"]:
        lines.append(f"  ordered  command {found['ordered']}, acknowledged {control['number']}")
    if found["stops_at"] is not None:
        lines.append(f"  stops at epoch {found['stops_at']['epoch']}: {found['stops_at']['error']}")
    lines += [f"  attempt  {one['generation']}: {one['task']}" for one in found["attempts"]]
    return "\n".join(lines)
