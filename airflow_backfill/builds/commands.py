"""The log of commands: everything that people ordered of a build, with the barrier that acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.builds.history import History
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command


def logged(state: BuildState, commands: Sequence[tuple[int, Command]], history: History) -> list[dict[str, Any]]:
    """The commands as plain JSON.

    Each has its ``number``, ``verb``, the arguments ``rate``, ``byte_rate``, ``until`` and ``drop``, and who signed it:
    ``by``, ``why``, ``at`` and ``via``. ``acknowledged``: whether a barrier knows it. ``version`` and
    ``acknowledged_at`` are those of the first barrier that does; None if the history does not reach back to it.
    """
    return [_shown(number, command, state, history) for number, command in commands]


def _shown(number: int, command: Command, state: BuildState, history: History) -> dict[str, Any]:
    knowing = [barrier for barrier in history.barriers if barrier.record.control.number >= number]
    first = knowing[-1] if knowing and (history.whole or len(knowing) < len(history.barriers)) else None
    return {
        "number": number,
        "verb": command.verb.value,
        "rate": command.rate,
        "byte_rate": command.byte_rate,
        "until": command.until,
        "drop": command.drop,
        **{name: getattr(command.signed, name) for name in ("by", "why", "at", "via")},
        "acknowledged": number <= state.control.number,
        "version": None if first is None else first.version,
        "acknowledged_at": None if first is None else first.at,
    }
