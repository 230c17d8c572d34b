"""The attempts at a build: whose task each is, when it began and ended, and whether it lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_backfill.core.reports.life import Signs, life
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder

AT_ONCE = 8
"""Attempts whose files are read at one time."""
SAME = ("task", "dag_id", "task_id", "run_id", "map_index")
"""Two attempts that agree in these are tries of one task instance."""


def attempts(control: ControlFolder, state: BuildState | None, now: int, last: int) -> list[dict[str, Any]]:
    """The ``last`` attempts, oldest first, as plain JSON. ``state``: what is committed; None before the plan.

    ``task`` is the application, ``dag_id`` to ``try_number`` the task instance of Airflow that started it; None if the
    command line did. Times are milliseconds since 1970: ``drawn`` when its number was drawn, ``started`` when its
    application began, ``seen`` its last sign of life, ``ended`` when it stored its outcome. ``life`` is a ``Life``.
    ``outcome`` and ``message`` tell how it ended; ``application`` and ``ui`` where it runs.
    """
    known = max((one.record.generation for one in state.known), default=0) if state is not None else 0
    drawn = control.attempts(last, known)
    commits = {} if state is None else {barrier.record.attempt: barrier.at for barrier in reversed(state.known)}
    newest = {_instance(document): generation for generation, document in drawn}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        left = list(pool.map(lambda one: _left(control, Attempt(one[0], one[1]["attempt"])), drawn))
    return [
        _shown(generation, document, *files, commits.get(document["attempt"]), newest[_instance(document)], now)
        for (generation, document), files in zip(drawn, left, strict=True)
    ]


def _left(control: ControlFolder, attempt: Attempt) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """What an attempt announced, and its outcome."""
    return control.announced(attempt) or {}, control.outcome(attempt)


def _shown(
    generation: int,
    document: Mapping[str, Any],
    announced: Mapping[str, Any],
    outcome: Mapping[str, Any] | None,
    committed: int | None,
    newest: int,
    now: int,
) -> dict[str, Any]:
    signs = (at for at in (announced.get("alive"), announced.get("at"), committed) if at is not None)
    seen = max(signs, default=None)
    superseded = newest > generation and None not in _instance(document)
    failed = outcome is not None and outcome["code"] != "OK"
    return {
        "generation": generation,
        "attempt": document["attempt"],
        **{name: document.get(name) for name in (*SAME, "try_number", "by", "why", "via")},
        "drawn": document.get("at"),
        "started": announced.get("at"),
        "seen": seen,
        "ended": None if outcome is None else outcome.get("at"),
        "life": life(Signs(document.get("at"), seen, outcome is not None, superseded), now).value,
        "outcome": None if outcome is None else outcome["code"],
        "message": outcome["message"] if outcome is not None and failed else None,
        "application": announced.get("application"),
        "ui": announced.get("ui"),
    }


def _instance(document: Mapping[str, Any]) -> Sequence[Any]:
    return tuple(document.get(name) for name in SAME)
