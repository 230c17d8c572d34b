"""Whether an attempt lives, from what it left behind. For people: the protocol never asks, because the newest attempt
wins whatever the others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SIGN_SECONDS = 30.0
"""Time between two signs of life of an application."""
SILENT_MS = 180_000
"""An application without a sign of life for this long has probably died. Several signs may fail, clocks may differ."""
STARTING_MS = 900_000
"""A start may take this long, in milliseconds: the cluster may have to make room."""


class Life(str, Enum):
    STARTING = "starting"
    """It was drawn, and its application has not begun yet."""
    RUNNING = "running"
    """Its application gave a sign of life a short time ago."""
    SILENT = "silent"
    """Neither an outcome nor a recent sign of life: it has probably died."""
    SUPERSEDED = "superseded"
    """No outcome, and a newer attempt of the same task has begun."""
    ENDED = "ended"
    """Its outcome is stored."""
    UNKNOWN = "unknown"
    """No outcome and no times: an older version of the package drew it."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What an attempt left behind. Times are milliseconds since 1970, None if it left none."""

    drawn: int | None
    seen: int | None
    """The last sign of life of its application, or its last commit."""
    ended: bool
    superseded: bool


def life(signs: Signs, now: int) -> Life:
    """Whether an attempt that left these signs lives."""
    if signs.ended:
        return Life.ENDED
    if signs.superseded:
        return Life.SUPERSEDED
    if signs.seen is not None:
        return Life.RUNNING if now - signs.seen <= SILENT_MS else Life.SILENT
    if signs.drawn is None:
        return Life.UNKNOWN
    return Life.STARTING if now - signs.drawn <= STARTING_MS else Life.SILENT
