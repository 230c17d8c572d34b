"""The heartbeat of a service and the signs of a waiting task, and how long each relies on the other's last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.values.document import count, parts

BEAT_SECONDS = 5.0
"""Time between two heartbeats."""
SILENT_SECONDS = 90.0
"""A service without a new heartbeat for this long is dead: its requests are lost."""

WATCH_SECONDS = 60.0
"""Time between two signs of a task that its request is still watched."""
UNWATCHED_SECONDS = 900.0
"""A request without a new sign for this long is withdrawn: its task was killed, and Airflow has forgotten it. A
triggerer may be away for less.
"""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a service says of itself. Only the change of ``number`` counts: nobody compares two machines' clocks."""

    number: int
    application: str
    ui: str
    at: int
    """When, by the service's clock: milliseconds since 1970."""
    running: int
    """Requests whose work is under way."""
    draining: bool
    """Whether it takes no more requests, because it is about to end."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}

    @staticmethod
    def from_json(value: Any) -> Heartbeat:
        """The heartbeat; RecordInvalid if it is none."""
        try:
            number, application, ui, at, running, draining = parts(value, *_NAMES)
            if not (isinstance(application, str) and isinstance(ui, str) and isinstance(draining, bool)):
                raise ValueError(f"wrong types in {value!r}")
            return Heartbeat(count(number), application, ui, count(at), count(running), draining)
        except ValueError as error:
            raise RecordInvalid(f"not a heartbeat: {error}; delete the file") from None


_NAMES = ("number", "application", "ui", "at", "running", "draining")
