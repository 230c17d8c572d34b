"""Ordering a command: it is appended beside the target, and refused where it could have no effect."""

from __future__ import annotations

import time

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader

POLL = 0.25
"""Seconds between two looks at the target's log."""


def ordered(target: str, command: Command) -> int:
    """The number under which a barrier will acknowledge the command; NotPlanned or NotAllowedNow otherwise."""
    reader = BuildReader(target)
    state = reader.state()
    finished = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    if finished and command.verb is Verb.CANCEL:
        raise NotAllowedNow("the build is finished: there is nothing to cancel", phase=state.phase.value)
    if (finished or state.phase is Phase.CATCH_UP) and command.verb in (Verb.HOLD, Verb.RELEASE):
        raise NotAllowedNow(f"the build has passed its gate: too late to {command.verb.value}", phase=state.phase.value)
    if command.verb is Verb.SKIP and not (state.plan.splits.landing and state.phase is Phase.SNAPSHOT):
        raise NotAllowedNow("there is nothing to skip: no history of a topic is being read", phase=state.phase.value)
    if state.phase is Phase.CANCELLED and command.verb is not Verb.CANCEL:
        raise NotAllowedNow("the build was cancelled; plan it again to go on", phase=state.phase.value)
    return reader.control.order(state.plan.build, command, floor=state.control.number)


def acknowledged(target: str, number: int, seconds: float) -> bool:
    """Whether a barrier acknowledges the command within that time."""
    reader, deadline = BuildReader(target), time.monotonic() + seconds
    while reader.state().control.number < number:
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True
