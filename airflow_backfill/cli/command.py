"""Ordering a command: it is appended beside the target, and refused where it could have no effect."""

from __future__ import annotations

from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.phase import Phase
from airflow_backfill.ledger.reader import BuildReader


def ordered(target: str, command: Command) -> int:
    """The number under which a barrier will acknowledge the command; NotPlanned or NotAllowedNow otherwise."""
    reader = BuildReader(target)
    state = reader.state()
    finished = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    if finished and command.verb in (Verb.CANCEL, Verb.HOLD, Verb.RELEASE):
        raise NotAllowedNow(f"the build is finished: there is nothing to {command.verb.value}", phase=state.phase.value)
    if state.phase is Phase.CANCELLED and command.verb is not Verb.CANCEL:
        raise NotAllowedNow("the build was cancelled; plan it again to go on", phase=state.phase.value)
    return reader.control.order(state.plan.build, command, floor=state.control.number)
