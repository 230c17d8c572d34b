"""Orders a command: appends it beside the target, unless it could have no effect."""

from __future__ import annotations

import time

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader

POLL_SECONDS = 0.25
"""Time between two reads of the target's log."""


def ordered(target: str, command: Command) -> int:
    """Append the command. Returns the number under which a barrier acknowledges it. NotPlanned, NotAllowedNow."""
    reader = BuildReader(target)
    state = reader.state()
    finished = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    if finished and command.verb is Verb.CANCEL:
        raise NotAllowedNow("cancel: the build is finished, so there is nothing to cancel", phase=state.phase.value)
    if (finished or state.phase is Phase.CATCH_UP) and command.verb in (Verb.HOLD, Verb.RELEASE):
        raise NotAllowedNow(
            f"{command.verb.value}: the build has passed its gate, so the command has no effect",
            phase=state.phase.value,
        )
    if command.verb is Verb.SKIP and not (state.plan.splits.landing and state.phase is Phase.SNAPSHOT):
        raise NotAllowedNow(
            "skip: there is nothing to skip, the build reads no history of a topic",
            phase=state.phase.value,
        )
    if state.phase is Phase.CANCELLED and command.verb is not Verb.CANCEL:
        raise NotAllowedNow(
            f"{command.verb.value}: the build was cancelled; run the plan task again to resume it",
            phase=state.phase.value,
        )
    return reader.control.order(state.plan.build, command, floor=state.control.number)


def acknowledged(target: str, number: int, seconds: float) -> bool:
    """Whether a barrier acknowledges the command within ``seconds``."""
    reader, deadline = BuildReader(target), time.monotonic() + seconds
    while reader.state().control.number < number:
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
