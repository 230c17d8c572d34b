"""What consumers of a target wait for, for their sensors and triggers: the hand-off, or an epoch."""

from __future__ import annotations

from airflow_backfill.core.errors import Cancelled, NotPlanned
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.watching.watched_build import WatchedBuild

REACHED = ("applied", "seen")


def first_epoch(build: WatchedBuild) -> int | Waiting:
    """The epoch after the committed hand-off of the build, or Waiting. Cancelled for a cancelled build."""
    try:
        state = build.state()
    except NotPlanned as missing:
        return Waiting((missing.message,), lag=False)
    if state.phase in (Phase.FINISHED, Phase.UPSTREAM) and state.handoff is not None:
        return state.handoff + 1
    return _not_yet(state.phase, f"the build is in phase {state.phase.value}")


def reached_epoch(build: WatchedBuild, epoch: int, reached: str) -> int | Waiting:
    """The epoch that the target has reached, once it is ``epoch`` or later; else Waiting. Cancelled as above."""
    try:
        state = build.state()
    except NotPlanned as missing:
        return Waiting((missing.message,), lag=False)
    found = state.applied if reached == "applied" else state.seen
    if found is not None and found >= epoch:
        return found
    return _not_yet(state.phase, f"epoch {epoch} is not {reached} yet (last: {found})")


def _not_yet(phase: Phase, why: str) -> Waiting:
    if phase is Phase.CANCELLED:
        raise Cancelled("the build was cancelled; run the plan task again to resume it")
    return Waiting((why,), lag=False)
