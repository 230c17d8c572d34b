"""Everything about one build that its page shows, as plain JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from typing import Any

from airflow_backfill.builds.look import Look
from airflow_backfill.builds.phase_times import phase_times
from airflow_backfill.builds.status import planning, shown
from airflow_backfill.core.attempts.refusal import refusal
from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.reports.attempt_status import AttemptStatus
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Errand, Verb
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_store import StoreOptions
from airflow_backfill.ledger.reader import BuildReader

COMMITS = 60
"""Commits of the target in the drawings."""
CELLS = 120
"""Cells of the strip of splits, at most."""
SNAPSHOT = "snapshot"
"""The application that reads splits."""
SHOWN_READING = 8
"""Splits that are being read, in words."""


def whole(target: str, options: StoreOptions = None, *, values: bool = True) -> dict[str, Any]:
    """The status, and what is drawn: phases, splits, the last barriers; the attempts that have left an explanation; and
    the orders that would have no effect. ``values``: whether messages, and keys that differ, may show values of rows.
    """
    reader, now = BuildReader(target, options=options, values=values), now_ms()
    try:
        look = Look.at(reader, now, COMMITS)
    except NotPlanned as missing:
        return planning(reader, now, missing)
    state = look.state
    with ThreadPoolExecutor(1) as pool:
        stored = pool.submit(reader.control.explanations)
        phases = phase_times(reader.log, state)
    orders: tuple[Verb | Errand, ...] = (*Verb, *Errand)
    return {
        **shown(look),
        "in_force": look.control.to_json(),
        "key": list(state.plan.spec.key),
        "splits": strip(state, look.statuses),
        "phases": phases,
        "history": look.history.to_json(),
        "explanations": stored.result(),
        "refused": {one.value: refused.message for one in orders if (refused := refusal(one, state)) is not None},
    }


def strip(state: BuildState, attempts: Sequence[AttemptStatus]) -> dict[str, Any]:
    """How far the splits are, in at most ``CELLS`` cells of neighbours: from 0 to 1, rounded down, and in words; and
    the first of those that are being read. Of a split, records count files, chunks, or records and rows of a partition,
    not the rows of a file. Its tries are those of its lane, as far as one of these attempts, oldest first, tells.
    """
    lanes = [_lane(state, lane, attempts) for lane in range(state.layout.lanes)]
    parts = [_part(state, split, position, lanes) for split, position in enumerate(state.positions)]
    count = min(len(parts), CELLS)
    borders = [len(parts) * n // count for n in range(count + 1)] if count else []
    cells = [
        {"done": floor(1000 * sum(part.done for part in parts[a:b]) / (b - a)) / 1000, "said": _said(a, parts[a:b])}
        for a, b in pairwise(borders)
    ]
    reading = [_said(n, [part]) for n, part in enumerate(parts) if part.reading]
    return {"count": len(parts), "lanes": state.layout.lanes, "cells": cells, "reading": reading[:SHOWN_READING]}


@dataclass(frozen=True, slots=True)
class _Part:
    """A split of the strip."""

    done: float
    stands: str
    counts: Mapping[str, int]
    by: str | None
    """Who reads it; None if nobody has to."""
    reading: bool


def _said(first: int, parts: Sequence[_Part]) -> str:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    counted = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    if len(parts) == 1:
        said = (f"split {first}: {parts[0].stands}", counted, parts[0].by)
        return "; ".join(one for one in said if one)
    read = sum(part.done == 1 for part in parts)
    said_of_all = f"splits {first} to {first + len(parts) - 1}: {read} of {len(parts)} read"
    return f"{said_of_all}; {counted}" if counted else said_of_all


def _part(state: BuildState, split: int, position: Position, lanes: Sequence[str]) -> _Part:
    splits, epoch = state.plan.splits, position.newest_epoch
    done, counts = splits.share(split, position), splits.counts(split, position)
    if position.read:
        stands = "read" if epoch is None else f"stands at epoch {epoch}"
        return _Part(done, stands, counts, None, reading=False)
    stands = "being read" if position.begun else "not started"
    by = next(said for lane, said in enumerate(lanes) if state.owns(lane, split))
    return _Part(done, stands, counts, by, reading=position.begun)


def _lane(state: BuildState, lane: int, attempts: Sequence[AttemptStatus]) -> str:
    """The attempt that committed the lane's last round, and its newest one with Airflow's number of the try."""
    barrier = state.lanes[lane]
    committed = 0 if barrier is None else barrier.record.generation
    said = [f"lane {lane}"] if barrier is None else [f"lane {lane}", f"last committed by attempt {committed}"]
    newest = next((one for one in reversed(attempts) if _reads(one, lane, state.layout.lanes)), None)
    if newest is not None and newest.try_number is not None and newest.generation >= committed:
        said.append(f"attempt {newest.generation} is try {newest.try_number}")
    return ", ".join(said)


def _reads(one: AttemptStatus, lane: int, lanes: int) -> bool:
    return one.task == SNAPSHOT and one.instance is not None and (lanes == 1 or one.instance.map_index == lane)
