"""The explanation of a row: the verdict, and the explanation as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.reports import explained_topic
from airflow_backfill.core.reports.explained_row import EQUAL, Row, conclusion, heading, made, shown, time, unequal


def verdict(
    holds: Sequence[Row], should: Sequence[Row] | None, unknown: str | None, applied: int | None, touched: int
) -> tuple[str, str]:
    """Whether the target ``holds`` what it ``should``, and what that means. ``unknown``: why that cannot be said.
    ``touched`` is the last epoch that changed the key.
    """
    if (other := unequal(holds, should, unknown, f" at epoch {applied}")) is not None:
        return other
    pending = applied is not None and touched > applied
    later = f"; epoch {touched} changes the row and is still pending" if pending else ""
    return EQUAL, f"the target holds what the source says at epoch {applied}{later}"


def as_text(found: Mapping[str, Any]) -> str:
    """The explanation as lines."""
    if "topic" in found:
        return explained_topic.as_text(found)
    epochs, snapshot = found["epochs"], found["snapshot"]
    lines = [heading(found), f"  snapshot  epoch {snapshot['epoch']} of the source"]
    if snapshot["rows"] is None:
        lines.append(f"            cannot be read any more: {snapshot['error']['message']}")
    else:
        lines += ["            no row"] if not snapshot["rows"] else []
        for row in snapshot["rows"]:
            lines += [f"            had    {shown(row['image'])}", f"            made   {made(row['made'])}"]
    lines.append(
        f"  log       epochs {epochs['from']} to {epochs['to']}: {epochs['looked_at']:,} looked at, {epochs['read']:,} "
        "with files that can hold the key"
    )
    if epochs["missing"]:
        lines.append(f"  WARNING   {len(epochs['missing']):,} epochs are no longer in the source's log")
    for one in found["changes"]:
        applied = one["applied_in"]
        where = "not found in the target's log" if applied is None else f"applied in version {applied['version']}"
        if found["applied"] is None or one["epoch"] > found["applied"]:
            where = "pending"
        lines.append(f"  epoch {one['epoch']:<5} {time(one['at'])} {one['operation']}, {one['change']}; {where}")
        lines += [f"            had    {shown(one['image'])}"]
        lines += [] if one["change"] in ("delete", "update_preimage") else [f"            made   {made(one['made'])}"]
    if found["truncated"]:
        lines.append("  WARNING   there are more changes; look at a part of them with --since")
    return "\n".join([*lines, *conclusion(found)])
