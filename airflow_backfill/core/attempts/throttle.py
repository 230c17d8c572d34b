"""The throttle: what a user holds back, and when the next unit of work may start.

A rate limits what is read, in every phase, in windows of seconds. Several lanes share it. A unit that cannot be made
smaller passes as a whole, and the wait follows. Idle time earns no credit.
"""

from __future__ import annotations

from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Held, Move, Observed, Wait

POLL_MS = 5_000
"""Milliseconds between looks at the commands while an attempt is held."""


def held(state: BuildState, lane: int, observed: Observed) -> Held | None:
    """What holds rows back now; None if nothing does. Barriers without rows are never held back."""
    due = due_at(state, lane, observed)
    if observed.control.stopped:
        why = "paused" if observed.control.paused else "the rate is 0"
        return Held(Wait(observed.now + POLL_MS, why), throttled=observed.now < due)
    if observed.now < due:
        return Held(Wait(min(due, observed.now + POLL_MS), "throttled"), throttled=True)
    return None


def due_at(state: BuildState, lane: int, observed: Observed) -> int:
    """The earliest start of the next unit: from the lane's last record, if the rate has not changed since.

    The clock of another driver may have been hours ahead: what it wrote at a time that has yet to come holds nothing.
    """
    last = state.lanes[lane]
    if last is not None and last.record.control.rates == observed.control.rates:
        written = last.record.pending
        if written is None or written.at <= observed.now:
            return last.record.due
    return 0


def due_after(state: BuildState, lane: int, observed: Observed, move: Move) -> int:
    """The earliest start of the unit after this one. Idle time earns no credit."""
    due, sharing, taken = due_at(state, lane, observed), _sharing(state), (move.rows, move.bytes)
    costs = [sharing * units * 1000 // rate for units, rate in zip(taken, observed.control.rates, strict=True) if rate]
    return max(due, observed.now) + max(costs) if any(costs) else due


def _sharing(state: BuildState) -> int:
    """The number of lanes that have begun and have files left to read. They share the rate."""
    left = {n % state.layout.lanes for n, p in enumerate(state.positions) if p.complete is None}
    return sum(state.lanes[lane] is not None for lane in left) or 1
