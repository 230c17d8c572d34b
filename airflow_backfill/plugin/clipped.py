"""Answers of a bounded size, whatever an error says: its message may hold the rows of a table."""

from __future__ import annotations

from typing import Any

MOST = 2_000
"""Characters of a text that the page shows."""


def clipped(value: Any) -> Any:
    """Plain JSON with every text cut to ``MOST`` characters; a cut text says how long it was."""
    match value:
        case str() if len(value) > MOST:
            return f"{value[:MOST]} … ({len(value):,} characters in all; `table-backfill status` shows them)"
        case dict():
            return {name: clipped(part) for name, part in value.items()}
        case list():
            return [clipped(part) for part in value]
    return value
