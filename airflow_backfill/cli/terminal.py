"""Colours and bars, on a terminal only."""

from __future__ import annotations

import os
import re
from typing import TextIO

BAR_WIDTH = 30
CLEAR_BELOW = "\x1b[0J"
_RESET = "\x1b[0m"
_BOLD, _RED, _GREEN, _YELLOW, _CYAN = ("\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m")
_MARKED = (
    (re.compile(r"^ *(WARNING|fail\b|\[[A-Z_]+\]).*"), _RED),
    (re.compile(r"^(\s+health|\S+) +\w+ \(needs attention\).*|^(unreachable|unreadable)\b.*"), _RED),
    (re.compile(r"^(\s+health|\S+) +(paused|throttled|waiting|starved)\b.*"), _YELLOW),
    (re.compile(r"^ +(waits for|in force|still)\b.*"), _YELLOW),
    (re.compile(r"^(\s+health|\S+) +(working|done)\b.*|^ *(proven|pass)\b.*|^\S+: (finished|upstream)\b.*"), _GREEN),
    (re.compile(r"^ +attempt\b.*no outcome yet"), _CYAN),
)
"""Which line gets which colour: the first that matches. The first line of a text is bold, if it has no colour."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream, and it understands escape sequences. A closed one is None."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str, stream: TextIO | None) -> str:
    """``text`` with colours if ``stream`` is a terminal and ``NO_COLOR`` is not set (https://no-color.org)."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR"):
        return text
    return "\n".join(_line(line, "" if place else _BOLD) for place, line in enumerate(text.split("\n")))


def _line(line: str, usual: str) -> str:
    colour = next((colour for pattern, colour in _MARKED if pattern.match(line)), usual)
    return f"{colour}{line}{_RESET}" if colour else line


def bar(percent: float) -> str:
    """A bar of a fixed width."""
    full = int(BAR_WIDTH * min(max(percent, 0.0), 100.0) / 100)
    return f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {percent} %"
