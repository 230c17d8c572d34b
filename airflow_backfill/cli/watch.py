"""``status --watch``: a bar that is redrawn on a terminal, and a line for each change elsewhere."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from typing import Any, TextIO

from airflow_backfill.builds.status import PLANNING, as_text
from airflow_backfill.cli.terminal import CLEAR_BELOW, bar, coloured, is_terminal
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.health import in_words
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.phase import Phase

LEAST_SECONDS, MOST_SECONDS = 0.2, 3600.0
ENDED = (Phase.FINISHED.value, Phase.CANCELLED.value)
MOVES = ("at", "seen", "lag", "unread", "history_left", "seconds_left", "rows_per_second")
"""What changes although nothing has happened."""


def watch(look: Callable[[], dict[str, Any]], seconds: float, out: TextIO, *, as_json: bool) -> None:
    """Show the status every ``seconds`` until the build is finished or cancelled. Errors that may pass are shown, and
    it goes on; others are raised. With ``as_json``: one document a line, if something has changed.
    """
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise invalid("--watch", seconds, f"must be between {LEAST_SECONDS:g} and {MOST_SECONDS:g} seconds")
    screen = Screen(out) if is_terminal(out) and not as_json else None
    shown: dict[str, Any] | None = None
    while True:
        try:
            found = look()
        except BackfillError as error:
            if not error.retry:
                raise
            found = {"error": error.to_json()}
        if screen is not None:
            text = f"  {_line(found)}" if "error" in found else as_text(found)
            screen.draw(f"{bar(found['percent'])}\n{text}" if "percent" in found else text)
        elif (still := {name: value for name, value in found.items() if name not in MOVES}) != shown:
            shown = still
            print(json.dumps(found) if as_json else f"{_now()} {_line(found)}", file=out, flush=True)
        if found.get("phase") in ENDED:
            return
        time.sleep(seconds)


class Screen:
    """Text on a terminal that the next one replaces."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._height = 0

    def draw(self, text: str) -> None:
        # After a line that wraps, or lines that scroll away, the next drawing would begin too low.
        width, height = shutil.get_terminal_size()
        text = "\n".join(line[:width] for line in text.split("\n")[: max(height - 1, 1)])
        up = f"\x1b[{self._height}A\r{CLEAR_BELOW}" if self._height else ""
        self._out.write(f"{up}{coloured(text, self._out)}\n")
        self._out.flush()
        self._height = text.count("\n") + 1


def _line(found: dict[str, Any]) -> str:
    error = found.get("error")
    if error is not None:
        return f"[{error['code']}] {error['message']}"
    if found["phase"] == PLANNING:
        return f"{found['target']}: planning; waits for {found['waits_for'][0]}"
    rows = "" if found["rows_per_second"] is None else f", {found['rows_per_second']:,.0f} rows/s"
    health = found["health"]
    where = f"{found['name']}: {found['phase']}, {found['percent']} %, epoch {found['epoch']}{rows}"
    return f"{where}; {in_words(health)}: {health['why']}"


def _now() -> str:
    return time.strftime("%H:%M:%S")
