"""What consumers of a target wait for, for their sensors and triggers: the hand-off, or an epoch."""

from __future__ import annotations

from collections.abc import Callable

from airflow_backfill.core.errors import Cancelled, NotPlanned
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.watching.watched_build import WatchedBuild

REACHED = ("applied", "seen")


def first_epoch(build: WatchedBuild) -> int | Waiting:
    """The epoch after the committed hand-off of the build, or Waiting. Cancelled for a cancelled build."""

    def handed_over(state: BuildState) -> int | str:
        if state.phase in (Phase.FINISHED, Phase.UPSTREAM) and state.handoff is not None:
            return state.handoff + 1
        return f"the build is in phase {state.phase.value}"

    return _awaited(build, handed_over)


def reached_epoch(build: WatchedBuild, epoch: int, reached: str) -> int | Waiting:
    """The epoch that the target has reached, once it is ``epoch`` or later; else Waiting. Cancelled as above."""

    def there(state: BuildState) -> int | str:
        found = state.applied if reached == "applied" else state.seen
        return found if found is not None and found >= epoch else f"epoch {epoch} is not {reached} yet (last: {found})"

    return _awaited(build, there)


def _awaited(build: WatchedBuild, look: Callable[[BuildState], int | str]) -> int | Waiting:
    """What ``look`` finds in the committed state: an epoch, or why there is none yet."""
    try:
        state = build.state()
    except NotPlanned as missing:
        return Waiting((missing.message,), lag=False)
    found = look(state)
    if isinstance(found, int):
        return found
    if state.phase is Phase.CANCELLED:
        raise Cancelled()
    return Waiting((found,), lag=False)
