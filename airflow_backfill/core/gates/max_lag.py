"""How much of the log may be pending."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.source.looks import NEVER, Looks
from airflow_backfill.core.state.state import BuildState

MAX_LAG = timedelta(minutes=5)
"""How much of the log may be pending by default. A number of epochs would be seconds for one source, days for another.
"""


@dataclass(frozen=True, slots=True)
class MaxLag:
    """How much may be pending: a number of epochs, or the age of the oldest pending epoch in milliseconds."""

    epochs: int | None = None
    age: int | None = None

    def __post_init__(self) -> None:
        named = [v for v in (self.epochs, self.age) if v is not None]
        if len(named) != 1 or type(named[0]) is not int or named[0] < 0:
            raise InvalidSpec(
                f"max_lag: must be a number of epochs or a timedelta, at least 0 (got {self.epochs!r}, {self.age!r})",
                field="max_lag",
            )

    def holds(self, source: Ahead, applied: int, now: int, looks: Looks = NEVER) -> bool:
        """Whether at most this much is pending after the epoch ``applied``. ``looks`` tell how old an epoch is."""
        if self.epochs is not None:
            return source.count(applied) <= self.epochs
        assert self.age is not None
        oldest = source.oldest(applied)
        return oldest is None or looks.age(oldest.number, oldest.at, source.latest, now) <= self.age


def within(max_lag: MaxLag, state: BuildState, source: Ahead, now: int, looks: Looks = NEVER) -> bool:
    """Whether at most ``max_lag`` is pending after the committed epoch, and no epoch is applied in part."""
    if state.applied is None or state.part is not None:
        return False
    return max_lag.holds(source, state.applied, now, looks)
