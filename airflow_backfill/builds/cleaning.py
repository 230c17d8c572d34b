"""Removes from the folder beside a target what its build does not need any more. Never records, digests, plans,
commands, attempts' numbers, or the memory of keys.
"""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.reader import BuildReader

DAY = 86_400_000
FORGOTTEN = "the details were removed by 'table-backfill clean'"


def clean(target: str | BuildReader, days: float) -> dict[str, Any]:
    """Remove parts of proofs, and what may hold values of rows and is older than ``days``: explanations, and the
    messages and data of errors, whose codes stay. Returns how much was removed. NotAllowedNow while the build is
    verified: the proof needs its parts.
    """
    if not 1 <= days <= 36_500:
        raise invalid("--days", days, "must be between 1 and 36,500 days")
    reader = BuildReader.of(target)
    state = reader.state()
    if state.phase is Phase.CATCH_UP:
        raise NotAllowedNow("clean: the build is being verified, and the proof needs its parts; wait for its end")
    before = now_ms() - int(days * DAY)
    control = reader.control
    removed = {"proof_parts": control.remove_parts(), "explanations": control.remove_explanations(before)}
    return {"target": reader.target, **removed, "errors": _forget(reader, before)}


def _forget(reader: BuildReader, before: int) -> int:
    """Remove the details of errors that were stored before a time. An outcome without a time is old."""
    count = 0
    for generation, document in reader.control.attempts():
        me = Attempt(generation, str(document.get("attempt")))
        outcome = reader.control.outcome(me)
        failed = outcome is not None and outcome["code"] != "OK" and outcome["message"] != FORGOTTEN
        if outcome is not None and failed and outcome.get("at", 0) < before:
            reader.control.store_outcome(me, {**outcome, "message": FORGOTTEN, "data": {}})
            count += 1
    return count
