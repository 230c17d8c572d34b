"""The attempts at a build, read from beside its target."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from airflow_backfill.core.reports.tried import Life, Tried, newest_of
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
    commits = {} if state is None else {barrier.record.attempt: barrier.at for barrier in reversed(state.known)}

    def told(one: tuple[int, Mapping[str, Any]]) -> Tried:
        generation, document = one
        me = Attempt(generation, document["attempt"])
        announced, outcome = control.announced(me) or {}, control.outcome(me)
        return Tried.told(generation, document, announced, outcome, commits.get(me.name), now)

    if len(drawn) > 1:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(told, drawn))
    else:
        found = [told(one) for one in drawn]
    newest = newest_of(found)
    return [
        replace(one, life=Life.SUPERSEDED) if one.outcome is None and _newer(newest, one) is not one else one
        for one in found
    ]


def _newer(newest: Mapping[Any, Tried], one: Tried) -> Tried:
    return one if one.instance is None else newest[one.task, one.instance]
