"""What the plan's rehearsal predicted, and what happened, by the times of the target's commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.splits.position import applied_by
from airflow_backfill.core.state.state import Barrier
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.phase import Event


def compared(rehearsal: Mapping[str, Any], barriers: Sequence[Barrier]) -> dict[str, dict[str, Any]]:
    """For ``snapshot`` and ``log`` the seconds that were ``predicted``, the ``actual`` ones, and the ``error`` as a
    share of the prediction; None for what has not happened yet. ``barriers``: all of the build, oldest first.

    The snapshot lasts from its first claim to the seal, pauses and retries included; the log from the seal until a
    round has applied everything that was pending when it began, or the target stands at the hand-off epoch.
    """
    one_by_one = iter(barriers)
    began = next((one.at for one in barriers if one.record.event is Event.CLAIM), None)
    sealed = next((one.at for one in one_by_one if one.record.event is Event.SEAL), None)
    caught_up = next((one.at for one in one_by_one if _takes_all(one) or _stands_at_handoff(one)), None)
    predicted = rehearsal["snapshot_seconds"] - rehearsal["start_seconds"]
    return {
        "snapshot": _compared(predicted, began, sealed),
        "log": _compared(rehearsal["log_seconds"], sealed, caught_up),
    }


def is_rehearsal(value: Any) -> bool:
    """Whether ``compared`` can read it: it may be of another version, or damaged."""
    if not isinstance(value, dict):
        return False
    kinds = (int, float)
    known = all(type(value.get(name)) in kinds for name in ("snapshot_seconds", "start_seconds"))
    return known and (value.get("log_seconds") is None or type(value["log_seconds"]) in kinds)


def _takes_all(barrier: Barrier) -> bool:
    """Whether a round of the log applied every epoch that was pending."""
    pending, epochs = barrier.record.pending, barrier.record.epochs
    return pending is not None and epochs is not None and epochs.stop > pending.head


def _stands_at_handoff(barrier: Barrier) -> bool:
    handoff, applied = barrier.record.handoff, applied_by(barrier.record.positions)
    return handoff is not None and applied is not None and applied >= handoff


def _compared(predicted: float | None, start: int | None, end: int | None) -> dict[str, Any]:
    # Two clocks may say that it ended before it began: then nothing is known.
    actual = None if start is None or end is None or end < start else round((end - start) / 1000, 1)
    error = None if actual is None or not predicted else round(actual / predicted - 1, 3)
    return {"predicted": None if predicted is None else round(predicted, 1), "actual": actual, "error": error}


def described(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The comparison in one line."""
    return "; ".join(f"{name} {_one(one)}" for name, one in found.items())


def _one(one: Mapping[str, Any]) -> str:
    predicted = "never" if one["predicted"] is None else lasting(one["predicted"])
    if one["actual"] is None:
        return f"{predicted}, not ended yet"
    error = "" if one["error"] is None else f" ({one['error']:+.0%})"
    return f"{predicted}, took {lasting(one['actual'])}{error}"
