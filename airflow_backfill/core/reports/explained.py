"""The explanation of a row: the verdict, and the explanation as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

EQUAL, DIFFERS, UNKNOWN = "equal", "differs", "unknown"
Row = Mapping[str, Any]


def verdict(
    holds: Sequence[Row], should: Sequence[Row] | None, unknown: str | None, applied: int | None, touched: int
) -> tuple[str, str]:
    """Whether the target ``holds`` what it ``should``, and what that means. ``unknown``: why that cannot be said.
    ``touched`` is the last epoch that changed the key.
    """
    if should is None:
        return UNKNOWN, unknown or "it is unknown what the target should hold"
    if _sorted(holds) == _sorted(should):
        pending = applied is not None and touched > applied
        later = f"; epoch {touched} changes the row and is still pending" if pending else ""
        return EQUAL, f"the target holds what the source says at epoch {applied}{later}"
    if len(holds) > 1:
        what = f"the target has {len(holds)} rows of this key"
    elif not holds:
        what = "the target lacks the row"
    elif not should:
        what = "the target has a row that the source does not have, or that 'where' leaves out"
    else:
        names = [name for name in should[0] if should[0][name] != holds[0].get(name)]
        what = f"the target differs in {', '.join(names)}"
    return DIFFERS, (
        f"{what} at epoch {applied}: another writer changed the target, or its rows were not made by this build; run "
        "`table-backfill prove` to count all keys that differ, and `table-backfill repair` to rewrite them"
    )


def as_text(found: Mapping[str, Any]) -> str:
    """The explanation as lines."""
    epochs, snapshot = found["epochs"], found["snapshot"]
    key = ", ".join(f"{name}={value}" for name, value in found["key"].items())
    lines = [f"{key} in {found['target']}", f"  snapshot  epoch {snapshot['epoch']} of the source"]
    if snapshot["rows"] is None:
        lines.append(f"            cannot be read any more: {snapshot['error']['message']}")
    else:
        lines += ["            no row"] if not snapshot["rows"] else []
        for row in snapshot["rows"]:
            lines += [f"            had    {_shown(row['image'])}", f"            made   {_made(row['made'])}"]
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
        lines.append(f"  epoch {one['epoch']:<5} {_time(one['at'])} {one['operation']}, {one['change']}; {where}")
        lines += [f"            had    {_shown(one['image'])}"]
        lines += [] if one["change"] in ("delete", "update_preimage") else [f"            made   {_made(one['made'])}"]
    if found["truncated"]:
        lines.append("  WARNING   there are more changes; look at a part of them with --since")
    lines += [f"  holds     {_all(found['holds'])}"]
    lines += [] if found["should_hold"] is None else [f"  should    {_all(found['should_hold'])}"]
    mark = {EQUAL: "proven", DIFFERS: "WARNING", UNKNOWN: "still"}[found["verdict"]]
    return "\n".join([*lines, f"  {mark:<9} {found['why']}"])


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _all(rows: Sequence[Row]) -> str:
    return "; ".join(_shown(row) for row in rows) or "no row"


def _made(row: Row | None) -> str:
    return "nothing: 'where' leaves it out" if row is None else _shown(row)


def _shown(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
