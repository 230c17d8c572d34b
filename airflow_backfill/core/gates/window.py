"""When the hand-off may begin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Window:
    """A part of every day: ``start <= t < stop`` in the time zone ``zone``. It may span midnight."""

    start: time
    stop: time
    zone: str

    def open_at(self, now: int) -> bool:
        """Whether the window is open. ``now``: milliseconds since 1970. Raises ZoneInfoNotFoundError if this machine
        does not know the zone.
        """
        clock = datetime.fromtimestamp(now / 1000, ZoneInfo(self.zone)).time()
        if self.start < self.stop:
            return self.start <= clock < self.stop
        return clock >= self.start or clock < self.stop

    def to_json(self) -> list[str]:
        return [self.start.isoformat(), self.stop.isoformat(), self.zone]

    @staticmethod
    def from_json(value: list[str]) -> Window:
        start, stop, zone = value
        return Window(time.fromisoformat(start), time.fromisoformat(stop), zone)
