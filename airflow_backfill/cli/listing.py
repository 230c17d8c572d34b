"""All builds below a folder, one line each. A store that does not answer holds up nobody: its builds are shown as
unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.builds.folder import DEPTH, read_all, targets_below
from airflow_backfill.builds.status import status
from airflow_backfill.cli.answer import Answer
from airflow_backfill.core.errors import BackfillError, NotPlanned
from airflow_backfill.core.reports.health import in_words
from airflow_backfill.ledger.open_store import StoreOptions
from airflow_backfill.ledger.reader import BuildReader

FIGURES = ("name", "strategy", "percent", "rows_per_second", "seconds_left", "health")


def listing(folder: str, options: StoreOptions) -> Answer:
    """Every build below ``folder``; an unreachable one makes the answer not good. SourceUnavailable if the folder
    itself cannot be listed.
    """
    answers = read_all(targets_below(folder, options), lambda target: status(BuildReader(target, options=options)))
    builds = [_line(target, answer) for target, answer in answers]
    good = all(build["error"] is None or build["state"] == "not planned" for build in builds)
    return Answer({"folder": folder, "builds": builds}, as_text(builds), good)


def _line(target: str, found: dict[str, Any] | BackfillError) -> dict[str, Any]:
    if isinstance(found, BackfillError):
        return _failed(target, found)
    # A build that is being planned has none of them.
    figures = {name: found.get(name) for name in FIGURES}
    pending = (found.get("lag") or {}).get("epochs")
    waits = found["waits_for"]
    return {"target": target, "state": found["phase"], **figures, "pending": pending, "waits_for": waits, "error": None}


def _failed(target: str, error: BackfillError) -> dict[str, Any]:
    unreachable = "unreachable" if error.retry else "unreadable"
    state = "not planned" if isinstance(error, NotPlanned) else unreachable
    nothing = dict.fromkeys((*FIGURES, "pending"))
    return {"target": target, "state": state, **nothing, "waits_for": [], "error": error.to_json()}


def as_text(builds: Sequence[Mapping[str, Any]]) -> str:
    """One line for each build."""
    if not builds:
        return f"no builds, down to {DEPTH} folders below"
    rows = [("STATE", "CONDITION", "%", "PENDING", "TARGET", ""), *(_cells(build) for build in builds)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(_row(row, widths) for row in rows)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    state, condition, percent, pending, target, said = row
    words = (state.ljust(widths[0]), condition.ljust(widths[1]))
    return "  ".join((*words, percent.rjust(widths[2]), pending.rjust(widths[3]), target, said)).rstrip()


def _cells(build: Mapping[str, Any]) -> tuple[str, ...]:
    percent = "" if build["percent"] is None else f"{build['percent']:.1f}"
    pending = "" if build["pending"] is None else f"{build['pending']:,}"
    error, health = build["error"], build["health"]
    said = f"[{error['code']}] {error['message']}" if error else health["why"] if health else ""
    return build["state"], in_words(health) if health else "", percent, pending, build["target"], said[:160]
