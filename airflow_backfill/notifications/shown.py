"""What a task shows of itself in its state store, for people who look at the task in Airflow."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pydantic import JsonValue

log = logging.getLogger(__name__)

WAITING = "waiting"
"""The key of the reasons why a task waits."""


def show(context: Context, key: str, value: JsonValue) -> None:
    """Store a value that no decision depends on. A store that fails neither ends the task nor hides its error."""
    try:
        context["task_state_store"].set(key, value)
    except Exception:
        log.warning("%s could not be stored in the task's state", key, exc_info=True)
