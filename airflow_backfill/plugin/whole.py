"""Everything about one build that its page shows, as plain JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from airflow_backfill.builds.look import Look
from airflow_backfill.builds.phase_times import phase_times
from airflow_backfill.builds.status import planning, shown
from airflow_backfill.core.attempts.refusal import refusal
from airflow_backfill.core.errors import NotPlanned, SourceNotDelta
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Errand, Verb
from airflow_backfill.ledger.reader import BuildReader

COMMITS = 60
"""Commits of the target in the drawings."""
CELLS = 120
"""Cells of the strip of splits, at most."""


def whole(target: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The status, and what is drawn: phases, splits, the last barriers; and the orders that would have no effect."""
    reader, now = BuildReader(target, options=options), time.time_ns() // 1_000_000
    try:
        look = Look.at(reader, now, COMMITS)
    except (NotPlanned, SourceNotDelta):
        found = planning(reader, now)
        if found is None:
            raise
        return found
    state = look.state
    orders: tuple[Verb | Errand, ...] = (*Verb, *Errand)
    return {
        **shown(look),
        "in_force": look.control.to_json(),
        "splits": strip(state),
        "phases": phase_times(reader.log, state),
        "history": look.history.to_json(),
        "refused": {one.value: refused.message for one in orders if (refused := refusal(one, state)) is not None},
    }


def strip(state: BuildState) -> dict[str, Any]:
    """How far the splits are, in at most ``CELLS`` cells of neighbours: from 0 to 1, and in words."""
    parts = [_part(state, split, position) for split, position in enumerate(state.positions)]
    count = min(len(parts), CELLS)
    borders = [len(parts) * n // count for n in range(count + 1)] if count else []
    cells = [
        {"done": round(sum(done for done, _ in parts[a:b]) / (b - a), 3), "said": _said(a, b, parts)}
        for a, b in pairwise(borders)
    ]
    return {"count": len(parts), "lanes": state.layout.lanes, "cells": cells}


def _said(first: int, end: int, parts: Sequence[tuple[float, str]]) -> str:
    if end - first == 1:
        return f"split {first}: {parts[first][1]}"
    read = sum(done == 1 for done, _ in parts[first:end])
    return f"splits {first} to {end - 1}: {read} of {end - first} are read"


def _part(state: BuildState, split: int, position: Position) -> tuple[float, str]:
    done, epoch = state.plan.splits.share(split, position), position.newest_epoch
    if position.read:
        return done, "read" if epoch is None else f"stands at epoch {epoch}"
    return done, "is being read" if position.begun else "has not begun"
