"""A build whose target was deleted by a cancel: its attempts are still there, and say who deleted it."""

from __future__ import annotations

from typing import Any, Protocol

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.look import ATTEMPTS
from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.reports.health import Condition, Health
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Verb
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.open_store import StoreOptions

DROPPED = "dropped"
"""The phase of such a build, on the page only."""


class Look(Protocol):
    def __call__(self, target: str, options: StoreOptions, *, values: bool) -> dict[str, Any]:
        """What a build looks like. ``values``: whether it may show values of rows."""


def or_dropped(look: Look) -> Look:
    """``look``, which tells of a dropped build what is left of it, instead of raising that there is no table."""

    def looked(target: str, options: StoreOptions, *, values: bool) -> dict[str, Any]:
        try:
            return look(target, options, values=values)
        except NotPlanned:
            found = dropped(target, options, now_ms(), values=values)
            if found is None:
                raise
            return found

    return looked


def dropped(target: str, options: StoreOptions, now: int, *, values: bool = True) -> dict[str, Any] | None:
    """What is left of a build whose last attempt has deleted its target; None for any other. ``now``: milliseconds."""
    control = ControlFolder.beside(target, options=options, values=values)
    statuses = attempts(control, None, now, ATTEMPTS).statuses
    last = statuses[-1] if statuses else None
    if last is None or last.task != Verb.CANCEL.value or last.outcome != "OK":
        return None
    outcome = control.outcome(Attempt(last.generation, last.attempt)) or {}
    if not (outcome.get("result") or {}).get("dropped"):
        return None
    why = f"attempt {last.generation} ({last.task}) deleted the target"
    why += f": {last.why}" if last.why else ""
    return {
        "phase": DROPPED,
        "target": target,
        "health": Health(Condition.DONE, why, by=last.by, since=last.ended).to_json(),
        "waits_for": [],
        "attempts": [one.to_json() for one in statuses],
        "trouble": None,
        "seen": now,
    }
