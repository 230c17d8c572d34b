"""What a build has cost: the sum over its attempts, in units that a bill has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from airflow_backfill.core.values.document import count, parts


@dataclass(frozen=True, slots=True)
class Cost:
    """Each sum is a lower bound if ``uncounted`` is not 0."""

    attempts: int = 0
    uncounted: int = 0
    """Attempts that did not tell everything: they ran in a service, were killed before their first sign of life, or
    belong to an older version of the package.
    """
    core_seconds: int = 0
    """Time of all tasks of Spark together. Idle cores and the driver's own work are not in it."""
    read_bytes: int = 0
    """The size of the table files that queries opened. What was read of topics is not in it."""
    written_bytes: int = 0
    """What tasks wrote into tables."""
    shuffled_bytes: int = 0
    """What tasks wrote for each other."""
    driver_requests: int = 0
    """Requests of drivers to object stores. Those of executors in processes of their own are not in it."""
    worker_requests: int = 0
    """Requests of the workers that waited for the applications to object stores."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Cost)))

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> Cost:
        """Raises ValueError if ``value`` is no cost."""
        return Cost(*(count(number) for number in parts(value, *(field.name for field in fields(Cost)))))

    @staticmethod
    def of_attempt(told: Mapping[str, Any], worker_requests: int = 0) -> Cost:
        """The cost of one attempt: ``told`` by its application, with numbers under these names. Others count as 0."""
        numbers = {name: _whole(told.get(name)) for name in _TOLD}
        missing = any(number is None for number in numbers.values())
        return Cost(1, int(missing), worker_requests=worker_requests, **{n: v or 0 for n, v in numbers.items()})


_TOLD = ("core_seconds", "read_bytes", "written_bytes", "shuffled_bytes", "driver_requests")


def _whole(number: Any) -> int | None:
    sound = type(number) in (int, float) and math.isfinite(number) and number >= 0
    return round(number) if sound else None
