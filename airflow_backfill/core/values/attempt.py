"""One try at a task, and what lies beside the target of it: a document, a heartbeat and an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task. ``generation`` orders the attempts of a target; ``name`` is unique."""

    generation: int
    name: str


_NUMBERS = ("at", "alive", "try_number", "map_index")
_TEXTS = ("attempt", "task", "dag_id", "task_id", "run_id", "by", "why", "via", "application", "ui", "code", "message")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(_NUMBERS, int),
    **dict.fromkeys(_TEXTS, str),
    **{"retry": bool, "last_try": bool, "data": dict, "result": dict, "cost": dict},
}


def flaw(document: Mapping[str, Any], *needed: str) -> str | None:
    """What is wrong with a document of an attempt: a field that is ``needed`` and missing, or a value of another type
    than its field has; None if nothing is. Fields that are not known here are left to their readers.
    """
    for name in needed:
        if document.get(name) is None:
            return f"it has no {name}"
    for name, kind in _KINDS.items():
        value = document.get(name)
        if value is not None and type(value) is not kind:
            return f"its {name} is {value!r:.50}"
    return None
