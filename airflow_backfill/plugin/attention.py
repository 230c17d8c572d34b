"""Which builds need attention: the order of the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.reports.health import Condition
from airflow_backfill.core.reports.summary import running_out
from airflow_backfill.plugin.dropped import DROPPED

ORDER = ("trouble", "waits", "works", "done")
_FAILED = ("failed", "upstream_failed")
_END = {"skipped": "was skipped, and its DAG run failed"}
_OF = {
    Condition.WORKING: "works",
    Condition.THROTTLED: "works",
    Condition.PAUSED: "waits",
    Condition.WAITING: "waits",
    Condition.STARVED: "waits",
    Condition.STUCK: "trouble",
    Condition.DONE: "done",
}
_DONE = ("finished", "cancelled")


def problems(found: Mapping[str, Any], ended: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a person should look at, as sentences. The error of the build itself is in ``trouble``. ``ended``: the task
    instances that failed in the newest run, or were skipped because it did. Those that worked on the build last are its
    ``tasks``.
    """
    phase = found.get("phase")
    over = phase in (*_DONE, DROPPED)
    failed = [
        *(task for task in found["tasks"] if task["state"] in _FAILED and phase != DROPPED),
        *(task for task in ended if not over),
    ]
    refused = () if over else (found.get("run") or {}).get("refused", ())
    said = [f"task {_name(task)}: the hand-off was {task['how']}" for task in refused]
    said += [f"task {_name(task)} {_END.get(task['state'], 'failed')}; see its log" for task in failed[:1]]
    if phase not in _DONE and (warning := running_out(found)) is not None:
        said.append(warning)
    return said


def _name(task: Mapping[str, Any]) -> str:
    return str(task["task_id"]) if task["map_index"] < 0 else f"{task['task_id']} [{task['map_index']}]"


def attention(found: Mapping[str, Any]) -> str:
    """``trouble``: the build cannot go on by itself, or soon cannot. ``waits``: something has to happen first.
    ``works`` or ``done`` otherwise.
    """
    if found.get("trouble") is not None or found["problems"] or found["health"]["needs_attention"]:
        return "trouble"
    return _OF[Condition(found["health"]["condition"])]


def rank(found: Mapping[str, Any]) -> tuple[int, bool, int, str]:
    """The sort key: those that need attention first, dropped ones last, then by the age of the oldest pending epoch."""
    lag = found.get("lag")
    age, name = lag["age"] if lag is not None else 0, str(found.get("name") or found["target"])
    return ORDER.index(found["attention"]), found.get("phase") == DROPPED, -age, name
