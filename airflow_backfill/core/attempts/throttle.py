"""The throttle: which work a command holds back, and when the next unit of work may start.

A rate limits what is read, in every phase, in windows of seconds. Lanes that read at the same time share it. A unit
that cannot be made smaller is read whole, and the lane waits afterwards. Idle time earns no credit.
"""

from __future__ import annotations

from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Held, Move, Observed, Wait

POLL_MS = 5_000
"""Milliseconds between two reads of the commands while an attempt is held."""


def held(state: BuildState, lane: int, observed: Observed) -> Held | None:
    """Why rows are held back now; None if they are not. Bookkeeping is never held back."""
    due = due_at(state, lane, observed)
    if observed.control.stopped:
        why = "paused" if observed.control.paused else "the rate is 0"
        return Held(Wait(observed.now + POLL_MS, why), throttled=observed.now < due)
    if observed.now < due:
        return Held(Wait(min(due, observed.now + POLL_MS), "throttled"), throttled=True)
    return None


def due_at(state: BuildState, lane: int, observed: Observed) -> int:
    """The earliest start of the next unit, from the lane's last record; 0 if the rates have changed since."""
    last = state.lanes[lane]
    return last.record.due if last is not None and last.record.control.rates == observed.control.rates else 0


def due_after(state: BuildState, lane: int, observed: Observed, move: Move) -> int:
    """The earliest start of the unit after this one."""
    due, sharing, taken = due_at(state, lane, observed), _sharing(state), (move.rows, move.bytes)
    costs = [sharing * units * 1000 // rate for units, rate in zip(taken, observed.control.rates, strict=True) if rate]
    return max(due, observed.now) + max(costs) if any(costs) else due


def _sharing(state: BuildState) -> int:
    """How many lanes have something left to read: they share the rate."""
    return len({n % state.layout.lanes for n, p in enumerate(state.positions) if p.complete is None}) or 1
