"""This machine's clock. Core reads none: whoever drives it says what time it is."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
