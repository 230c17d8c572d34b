"""How fast a build may be for now, and why: what a clock or another signal says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """Rates per second, None for no limit; 0 stops. ``why`` is for people."""

    rate: int | None = None
    """Rows."""
    byte_rate: int | None = None
    """Bytes that the snapshot reads."""
    until: int | None = None
    """When it ends by itself, milliseconds since 1970."""
    why: str | None = None

    @property
    def rates(self) -> tuple[int | None, int | None]:
        return self.rate, self.byte_rate
