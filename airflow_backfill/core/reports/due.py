"""Which task of Airflow is due, and which has to be cleared so that a build goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_backfill.core.reports.attempt_status import AttemptStatus, Instance, newest_of
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import LOOKS
from airflow_backfill.core.values.phase import Phase


def due(state: BuildState) -> tuple[str, ...]:
    """The applications that can go on with the build, the most likely one first."""
    match state.phase:
        case Phase.SNAPSHOT:
            return ("consume_log",) if state.read else ("snapshot",)
        case Phase.CONSUME_LOG:
            return ("consume_log", "catch_up")
        case Phase.CATCH_UP if state.certificate is not None:
            return ("finish",)
        case Phase.CATCH_UP if state.at_handoff:
            return ("verify",)
        case Phase.CATCH_UP:
            return ("catch_up",)
        case Phase.FINISHED | Phase.UPSTREAM:
            return ("upstream",)
        case Phase.CANCELLED:
            return ("plan",)


def to_clear(state: BuildState, statuses: Sequence[AttemptStatus]) -> tuple[Instance, ...]:
    """The task instances to clear so that the build goes on: those whose last attempt at the work that is due failed,
    in the newest run. If none failed, those that worked on it last, because the work is not done; of lanes, those with
    work left, because a lane that was marked as done has no attempt. Empty if one of them lives, or if no attempt
    tells. ``statuses``: the last attempts.
    """
    candidates = [one for (task, _), one in newest_of(statuses).items() if task in due(state)]
    if not candidates:
        # The work is due for the first time. An application may have failed on its way to it.
        candidates = [one for one in newest_of(statuses).values() if one.failed and one.task not in LOOKS]
    newest = max(candidates, key=lambda one: one.generation, default=None)
    if newest is None or newest.instance is None:
        return ()
    run = (newest.instance.dag_id, newest.instance.run_id)
    here = {
        one.instance: one for one in candidates if one.instance and (one.instance.dag_id, one.instance.run_id) == run
    }
    failed = tuple(instance for instance, one in here.items() if one.failed)
    if failed:
        return failed
    if any(one.lives for one in here.values()):
        return ()
    if newest.instance.map_index < 0 or due(state) != ("snapshot",):
        return (newest.instance,)
    return tuple(replace(newest.instance, map_index=lane) for lane in sorted(state.unread))
