"""The gate between consuming the log and catching up: one decision for the sensor, its trigger, the operator, and an
application that goes on through the gate.

It compares committed facts only, and never waits for something that no running task can change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill.core.errors import BackfillError, Cancelled
from airflow_backfill.core.gates.max_lag import MaxLag, within
from airflow_backfill.core.gates.window import Window
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.source.identity import check_ahead, check_source
from airflow_backfill.core.state.effect import Asks, ReadCommands, ReadSourceLog
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, obey
from airflow_backfill.core.values.phase import Phase


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the gate requires. ``window_open`` and ``approved`` come from Airflow."""

    max_lag: MaxLag
    window_open: bool = True
    approved: bool = True

    @staticmethod
    def at(now: int, max_lag: MaxLag, window: Window | None) -> Conditions:
        """The conditions at a time, in milliseconds since 1970, without an approval."""
        return Conditions(max_lag, window_open=window is None or window.open_at(now))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Closed, and why. ``lag``: more of the log has to be applied."""

    reasons: tuple[str, ...]
    lag: bool


@dataclass(frozen=True, slots=True)
class Ready:
    """Open: the committed epoch is within the bound, and all conditions hold."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Broken:
    """Closed for good."""

    error: BackfillError


Verdict = Waiting | Ready | Broken


def decide(
    state: BuildState,
    source: Ahead,
    commands: Sequence[tuple[int, Command]],
    conditions: Conditions,
    now: int,
) -> Verdict:
    """Whether the hand-off may begin. ``state`` was read from a log without foreign writes."""
    control = obey(state.control, commands).at(now)
    if control.cancelled or state.phase is Phase.CANCELLED:
        return Broken(Cancelled())
    applied = state.applied
    if state.phase in (Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM):
        assert applied is not None
        return Ready(applied)
    if applied is None:
        return Waiting(("the snapshot is not sealed",), lag=False)
    try:
        check_source(state.plan, source, applied, state.stands)
        check_ahead(state.phase, source, applied)
    except BackfillError as error:
        return Broken(error)
    reasons = []
    behind = not within(conditions.max_lag, state, source, now)
    if (part := state.part) is not None:
        reasons.append(f"epoch {part.epoch} is applied in part, {part.done} of {part.of}")
    if behind:
        reasons.append(f"{source.head - applied} epochs are pending after epoch {applied}")
    if control.held:
        reasons.append("the build is on hold")
    if not conditions.window_open:
        reasons.append("the time window is closed")
    if not conditions.approved:
        reasons.append("the hand-off is not approved yet")
    return Waiting(tuple(reasons), lag=behind) if reasons else Ready(applied)


def decide_by_record(
    state: BuildState,
    source: Ahead,
    commands: Sequence[tuple[int, Command]],
    conditions: Conditions,
    now: int,
) -> Verdict:
    """As ``decide``, with the lag of the newest barrier.

    No task applies epochs while the gate waits, so waiting for the current lag could last for ever. The catch-up
    applies the rest.
    """
    source, at = _as_committed(state, source, now)
    return decide(state, source, commands, conditions, at)


def _as_committed(state: BuildState, source: Ahead, now: int) -> tuple[Ahead, int]:
    """The part of ``source`` that the newest barrier's attempt had observed, and when, in milliseconds since 1970."""
    pending, upto = state.newest.record.pending if state.newest is not None else None, observed_upto(state, source)
    return (source, now) if pending is None or upto is None else (source.upto(upto), pending.at)


def observed_upto(state: BuildState, source: Ahead) -> int | None:
    """The last epoch that the newest barrier's attempt had observed, or that is announced since: none up to there stops
    the build. None if its record does not say, or the source does not have it.
    """
    pending = state.newest.record.pending if state.newest is not None else None
    if pending is None:
        return None
    upto = max(pending.head, *(commit.version for commit in state.stands))
    return upto if source.after <= upto <= source.head else None


def look(build: str, max_lag: MaxLag, window: Window | None) -> Asks[Verdict]:
    """The gate's verdict, as the sensor would find it now. Only Airflow knows about approvals."""
    state = yield from load(build)
    looked = yield from ReadCommands(files=False)
    source = yield from ReadSourceLog(state.reached)
    conditions = Conditions.at(looked.now, max_lag, window)
    return decide_by_record(state, source, looked.commands, conditions, looked.now)
