"""What an explanation says of rows, whatever the source is: how the target differs, and rows as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

EQUAL, DIFFERS, UNKNOWN = "equal", "differs", "unknown"
Row = Mapping[str, Any]

_WAY_OUT = (
    "another writer changed the target, or its rows were not made by this build; run `table-backfill prove` to count "
    "all keys that differ, and `table-backfill repair` to rewrite them"
)


def heading(found: Mapping[str, Any]) -> str:
    """The first line: the key, and the target."""
    key = ", ".join(f"{name}={value}" for name, value in found["key"].items())
    return f"{key} in {found['target']}"


def unequal(
    holds: Sequence[Row], should: Sequence[Row] | None, unknown: str | None, where: str = ""
) -> tuple[str, str] | None:
    """The verdict unless the target ``holds`` what it ``should``; None if it does. ``unknown``: why that cannot be
    said. ``where``: how far the target is, for the text.
    """
    if should is None:
        return UNKNOWN, unknown or "it is unknown what the target should hold"
    what = _difference(holds, should)
    return None if what is None else (DIFFERS, f"{what}{where}: {_WAY_OUT}")


def _difference(holds: Sequence[Row], should: Sequence[Row]) -> str | None:
    """How the rows that the target ``holds`` differ from those that it ``should`` hold; None if they do not."""
    if _sorted(holds) == _sorted(should):
        return None
    if len(holds) > 1:
        return f"the target has {len(holds)} rows of this key"
    if not holds:
        return "the target lacks the row"
    if not should:
        return "the target has a row that the source does not have, or that 'where' leaves out"
    names = [name for name in should[0] if should[0][name] != holds[0].get(name)]
    return f"the target differs in {', '.join(names)}"


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def conclusion(found: Mapping[str, Any]) -> list[str]:
    """The last lines: what the target holds and should hold, and the verdict."""
    mark = {EQUAL: "proven", DIFFERS: "WARNING", UNKNOWN: "still"}[found["verdict"]]
    should = [] if found["should_hold"] is None else [f"  should    {rows(found['should_hold'])}"]
    return [f"  holds     {rows(found['holds'])}", *should, f"  {mark:<9} {found['why']}"]


def rows(found: Sequence[Row]) -> str:
    """Rows as one text."""
    return "; ".join(shown(row) for row in found) or "no row"


def made(row: Row | None) -> str:
    """What the transform makes of a row."""
    return "nothing: 'where' leaves it out" if row is None else shown(row)


def shown(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def time(at: int) -> str:
    """A time in milliseconds since 1970."""
    return datetime.fromtimestamp(at / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
