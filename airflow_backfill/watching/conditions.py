"""Conditions of the hand-off: the lag, and a time window."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pendulum
from pendulum.tz.exceptions import InvalidTimezone

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.gates.window import Window


def window_of(value: Any) -> Window:
    """The window of a value such as ``("22:00", "06:00", "Europe/Berlin")``; InvalidSpec for any other."""
    try:
        start, stop, zone = value
        # As a text: an offset that is a number has a name, but it is one that no machine knows.
        window = Window(time.fromisoformat(start), time.fromisoformat(stop), pendulum.timezone(str(zone)).name)
    except (TypeError, ValueError, InvalidTimezone):
        window = None
    if window is None or window.start.tzinfo or window.stop.tzinfo or window.start == window.stop:
        raise InvalidSpec(
            f"window: must be two different times of day and a time zone, such as ('22:00', '06:00', 'UTC') (got "
            f"{value!r})",
            field="window",
        )
    return window


def max_lag_of(value: int | timedelta) -> MaxLag:
    """The lag from a number of epochs, or a duration."""
    if isinstance(value, timedelta):
        return MaxLag(age=int(value.total_seconds() * 1000))
    return MaxLag(epochs=value)


def lag_arguments(max_lag: MaxLag) -> list[str]:
    """The arguments of an application with this lag."""
    if max_lag.age is not None:
        return ["--max-lag-seconds", str(max_lag.age / 1000)]
    return ["--max-lag-epochs", str(max_lag.epochs)]


def high_water(max_lag: MaxLag) -> MaxLag:
    """The lag at which Spark starts again while the gate is closed: twice ``max_lag``."""
    if max_lag.age is not None:
        return MaxLag(age=2 * max_lag.age)
    assert max_lag.epochs is not None
    return MaxLag(epochs=2 * max_lag.epochs)
