"""What a build does now, in one word with a reason: for the engineer who is called at night.

A pure function of committed state, commands, attempts and a time. It compares clocks of several machines, so it is
right to within minutes, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.attempt_status import AttemptStatus, Life, lanes_of
from airflow_backfill.core.reports.due import due
from airflow_backfill.core.reports.throttle_wait import throttle_wait
from airflow_backfill.core.reports.way_out import WAYS_OUT, way_out
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.phase import Phase

STUCK_MS = 1_800_000
"""An attempt that runs and commits nothing for this long is stuck, if its rounds were not as long before."""
NEXT_MS = 300_000
"""Airflow starts the next task within this time, in milliseconds, if it can."""
_AGAIN = "Airflow tries again, unless its task or DAG run was marked by hand"


class Condition(str, Enum):
    WORKING = "working"
    THROTTLED = "throttled"
    """A limit holds the next round back."""
    PAUSED = "paused"
    """A pause or a rate of 0 is in force."""
    WAITING = "waiting"
    """Something has to happen first; the reason names whom or what."""
    STARVED = "starved"
    """Nothing holds it back, but no application runs."""
    STUCK = "stuck"
    """An application has died, or runs and gets nowhere."""
    DONE = "done"
    """The hand-off is committed, and no follower runs now."""


@dataclass(frozen=True, slots=True)
class Health:
    condition: Condition
    why: str
    by: str | None = None
    """Who ordered it; None if it was not ordered."""
    since: int | None = None
    """Milliseconds since 1970; None if unknown."""
    needs_attention: bool = False
    """Whether it goes on only after a person has removed a cause: an error that no retry can mend, an application that
    has died or gets nowhere. Not for what was ordered, such as a pause. Decided in this module only.
    """
    way_out: str | None = None
    """What that person has to do about the error; None if there is none."""

    @property
    def moves(self) -> bool:
        """Whether the build goes on by itself, so that its last rounds tell how long it takes. What a person has
        ordered, such as a hold, ends when a person ends it.
        """
        if self.condition is Condition.WAITING:
            return not self.needs_attention and self.by is None
        return self.condition in (Condition.WORKING, Condition.THROTTLED)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "condition": self.condition.value}


def health(
    state: BuildState,
    control: Control,
    commands: Sequence[tuple[int, Command]],
    statuses: Sequence[AttemptStatus],
    trouble: BackfillError | None,
    now: int,
    longest_ms: Callable[[], int] = lambda: 0,
) -> Health:
    """The build's condition. ``control``: commands in force, those included that no barrier has acknowledged.
    ``trouble``: the error that stops the build. ``longest_ms``: the longest time between its recent barriers, asked for
    only if it depends on that whether the build is stuck.
    """
    at = state.newest.at if state.newest is not None else None
    if state.phase is Phase.CANCELLED:
        return _ordered(Condition.WAITING, "a plan: the build was cancelled", commands, Verb.CANCEL, since=at)
    if control.cancelled:
        return _ordered(Condition.WAITING, "the cancel application: a cancel is ordered", commands, Verb.CANCEL)
    if trouble is not None:
        return _asks(str(trouble), WAYS_OUT.get(trouble.code))
    if control.paused:
        return _ordered(Condition.PAUSED, "a resume lifts it", commands, Verb.PAUSE)
    if 0 in control.rates:
        return _ordered(Condition.PAUSED, "the rate is 0; another rate lifts it", commands, Verb.THROTTLE)
    attempts = [one for one in statuses if one.works]
    running = next((one for one in reversed(attempts) if one.life is Life.RUNNING), None)
    if running is None:
        return _resting(state, control, commands, _telling(attempts), now)
    found = _running(state, control, commands, running, now, longest_ms)
    lost = next((one for one in lanes_of(running, attempts) if one.lost), None)
    return found if lost is None else _beside(found, _resting(state, control, commands, lost, now))


def _telling(attempts: Sequence[AttemptStatus]) -> AttemptStatus | None:
    """The attempt that tells why no application runs: the last one, or that of another lane which failed."""
    if not attempts:
        return None
    return max(lanes_of(attempts[-1], attempts), key=lambda one: (one.lost, one.lives, one.failed, one.generation))


def _beside(working: Health, lost: Health) -> Health:
    """The condition of a build one of whose lanes is lost while others work."""
    return replace(working, why=f"{working.why}; {lost.why}", needs_attention=True, way_out=lost.way_out)


def _running(
    state: BuildState,
    control: Control,
    commands: Sequence[tuple[int, Command]],
    one: AttemptStatus,
    now: int,
    longest_ms: Callable[[], int],
) -> Health:
    throttled = throttle_wait(state, now)
    if control.limited and control.rates == state.control.rates and throttled:
        why = f"the next round may begin in {lasting(throttled / 1000)}"
        return _ordered(Condition.THROTTLED, why, commands, Verb.THROTTLE)
    name, newest = _name(one), state.newest
    if newest is not None and newest.record.waits is not None and newest.record.attempt == one.attempt:
        return Health(Condition.WAITING, f"{name}: {newest.record.waits}", since=newest.at)
    last = max((at for at in (one.started, newest.at if newest is not None else None) if at is not None), default=now)
    silent = now - last - one.behind
    if silent > STUCK_MS and due(state) != ("verify",) and silent > 4 * longest_ms():
        why = f"{name} runs, but nothing was committed for {lasting(silent / 1000)}; look at its log"
        return _stuck(why, last)
    stalled = "" if state.bound is None or not state.bound.stalled else "; the log grows as fast as it is applied"
    began = None if one.started is None else one.started + one.behind
    return Health(Condition.WORKING, f"{name}{stalled}", since=began)


def _resting(
    state: BuildState, control: Control, commands: Sequence[tuple[int, Command]], last: AttemptStatus | None, now: int
) -> Health:
    """No application runs, as far as is known."""
    if last is not None and last.damage is not None and last.outcome is None:
        why = f"{_name(last)}, of which a file is damaged: whether it runs is unknown"
        return Health(Condition.WAITING, why, since=last.last)
    if last is not None and last.life is Life.STARTING:
        return Health(Condition.STARVED, f"{_name(last)} waits for Spark to start", since=last.drawn)
    if last is not None and last.life is Life.SILENT:
        return _dead(_name(last), last)
    finished = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    if last is not None and last.lost:
        return _lost(_name(last), last)
    if last is not None and last.failed:
        why = f"{_name(last)} ended with {_error(last)}; {_AGAIN}"
        return Health(_next(last, now), why, since=last.ended)
    if finished:
        return Health(Condition.DONE, "the hand-off is committed", since=None)
    if state.phase is Phase.CONSUME_LOG and control.held:
        return _ordered(Condition.WAITING, "a release: the gate is on hold", commands, Verb.HOLD)
    if state.phase is Phase.CONSUME_LOG and last is not None:
        why = (
            "the gate: the lag, the time window or an approval, and the tasks consume_log and gate say which; or, if "
            "the gate is open, for the catch_up task: it is queued, or failed in Airflow before it began"
        )
        return Health(Condition.WAITING, why, since=last.last)
    why = (
        f"the {due(state)[0]} task, which is due: it is queued (is its pool full?), its DAG is paused, or it or a task "
        "before it failed in Airflow, was skipped or marked by hand: then clear the first such task with those after it"
    )
    return Health(_next(last, now), why, since=None if last is None else last.last)


def health_of_plan(one: AttemptStatus, now: int) -> Health:
    """The condition of a build without a plan, whose last attempt plans it."""
    name = f"attempt {one.generation} of the plan task"
    match one.life:
        case Life.ENDED if one.lost:
            return _lost(name, one)
        case Life.ENDED:
            why = f"{name} ended with {_error(one)}; {_AGAIN}"
            return Health(_next(one, now), why, since=one.ended)
        case Life.SILENT:
            return _dead(name, one)
        case Life.STARTING:
            return Health(Condition.STARVED, f"{name} waits for Spark to start", since=one.drawn)
        case _:
            return Health(Condition.WORKING, f"{name} plans the build", since=one.started)


def in_words(health: Mapping[str, Any]) -> str:
    """The condition in a health's JSON, and whether it needs attention."""
    return f"{health['condition']}{' (needs attention)' if health['needs_attention'] else ''}"


def _asks(why: str, way_out: str | None, since: int | None = None) -> Health:
    return Health(Condition.WAITING, f"an operator: {why}", since=since, needs_attention=True, way_out=way_out)


def _lost(name: str, one: AttemptStatus) -> Health:
    """An attempt that has failed, after which there is no other try."""
    out = way_out(one.outcome or "", retry=one.retry and one.instance is not None, last_try=one.last_try)
    if one.retry and one.instance is None:
        out = f"Nobody tries again: remove the cause, then give the command again. {out}"
    return _asks(f"{name} ended with {_error(one)}", out, one.ended)


def _dead(name: str, one: AttemptStatus) -> Health:
    again = "give its command again" if one.instance is None else "clear its task"
    return _stuck(f"{name} gives no sign of life; {again}", one.last)


def _stuck(why: str, since: int | None) -> Health:
    return Health(Condition.STUCK, why, since=since, needs_attention=True)


def _next(last: AttemptStatus | None, now: int) -> Condition:
    """Whether the next task still has time to start."""
    waits = last is not None and last.last is not None and now - last.last <= NEXT_MS
    return Condition.WAITING if waits else Condition.STARVED


def _ordered(
    condition: Condition, why: str, commands: Sequence[tuple[int, Command]], verb: Verb, since: int | None = None
) -> Health:
    """The condition that the last command of this kind has brought about."""
    signed = next((command.signed for _, command in reversed(commands) if command.verb is verb), None)
    said = "" if signed is None or signed.why is None else f" ({signed.why})"
    if signed is None:
        return Health(condition, why, since=since)
    return Health(condition, f"{why}{said}", signed.by, signed.at if since is None else since)


def _name(one: AttemptStatus) -> str:
    return f"attempt {one.generation} ({one.task or 'of an unknown task'})"


def _error(one: AttemptStatus) -> str:
    return f"{one.outcome}: {one.message or ''}"
