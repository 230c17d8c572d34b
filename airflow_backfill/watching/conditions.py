"""What has to hold before the hand-off may begin, besides that nobody holds it: the lag, and a time window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

import pendulum
from pendulum.tz.exceptions import InvalidTimezone

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.gates.max_lag import MaxLag


@dataclass(frozen=True, slots=True)
class Window:
    """A part of every day, from ``start`` until before ``stop`` on the clocks of ``zone``; may span midnight."""

    start: time
    stop: time
    zone: str

    @staticmethod
    def parse(value: Any) -> Window:
        """The window that ``("22:00", "06:00", "Europe/Berlin")`` says."""
        try:
            start, stop, zone = value
            window = Window(time.fromisoformat(start), time.fromisoformat(stop), pendulum.timezone(zone).name)
        except (TypeError, ValueError, AttributeError, InvalidTimezone):
            window = None
        if window is None or window.start.tzinfo or window.stop.tzinfo or window.start == window.stop:
            raise InvalidSpec(
                f"window: two different times of day and a time zone are required (got {value!r})", field="window"
            )
        return window

    def open_at(self, moment: datetime) -> bool:
        """Whether the window is open at an aware ``moment``."""
        clock = pendulum.instance(moment).in_timezone(self.zone).time()
        if self.start < self.stop:
            return self.start <= clock < self.stop
        return clock >= self.start or clock < self.stop

    def to_json(self) -> list[str]:
        return [self.start.isoformat(), self.stop.isoformat(), self.zone]


def max_lag_of(value: int | timedelta) -> MaxLag:
    """The bound that a number of epochs, or a duration, says."""
    if isinstance(value, timedelta):
        return MaxLag(age=int(value.total_seconds() * 1000))
    return MaxLag(epochs=value)


def high_water(max_lag: MaxLag) -> MaxLag:
    """The lag at which Spark is started again while the hand-off is held back: twice the bound."""
    if max_lag.age is not None:
        return MaxLag(age=2 * max_lag.age)
    assert max_lag.epochs is not None
    return MaxLag(epochs=2 * max_lag.epochs)
