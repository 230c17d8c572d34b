"""The attempts at a build, read from beside its target."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from airflow_backfill.core.reports.tried import Instance, Life, Tried, newest_of
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder

AT_ONCE = 8
"""Attempts whose files are read at one time."""


def attempts(control: ControlFolder, state: BuildState | None, now: int, last: int) -> list[Tried]:
    """The ``last`` attempts, oldest first. ``state``: what is committed, None before the plan; ``now`` in milliseconds
    since 1970.
    """
    known = max((one.record.generation for one in state.known), default=0) if state is not None else 0
    drawn = control.attempts(last, known)
    if len(drawn) > 1:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda one: attempt(control, state, now, *one), drawn))
    else:
        found = [attempt(control, state, now, *one) for one in drawn]
    newest = newest_of(found)
    return [replace(one, life=Life.SUPERSEDED) if _superseded(one, newest) else one for one in found]


def attempt(
    control: ControlFolder, state: BuildState | None, now: int, generation: int, document: Mapping[str, Any]
) -> Tried:
    """The attempt with this document, whether a newer one of its task has begun left aside."""
    me = Attempt(generation, document["attempt"])
    barriers = () if state is None else (known for known in state.known if known.record.attempt == me.name)
    committed = max((barrier.at for barrier in barriers), default=None)
    return Tried.told(generation, document, control.announced(me) or {}, control.outcome(me), committed, now)


def _superseded(one: Tried, newest: Mapping[tuple[str, Instance], Tried]) -> bool:
    return one.outcome is None and one.instance is not None and newest[one.task, one.instance] is not one
