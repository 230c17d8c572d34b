"""Which commands interrupt a running round instead of waiting for its end, which may take an hour.

A cancel, a pause and a slower rate interrupt. The interrupted round has written nothing, or the log shows its commit:
the attempt reads the log as after every write, then obeys the command. Repeated pauses cannot stop a build for ever:
after a few interrupted rounds in a row, only a cancel interrupts the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_backfill.core.values.control import Command, Control, obey

MAX_INTERRUPTED_ROUNDS = 3
"""Rounds in a row that commands other than a cancel may interrupt."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A round, by the control state in force when it began. ``spared``: only a cancel interrupts it."""

    control: Control
    spared: bool

    @staticmethod
    def under(commands: Sequence[tuple[int, Command]], now: int, *, spared: bool) -> Begun:
        """A round that begins after these commands, ``now`` in milliseconds since 1970. A cancel among them was lifted,
        or the round would not begin.
        """
        return Begun(replace(obey(Control(), commands).at(now), cancelled=False, drop=False), spared)

    def stopped_by(self, commands: Sequence[tuple[int, Command]]) -> str | None:
        """Why these commands interrupt it, in words; None if they do not."""
        control = obey(self.control, commands)
        if control.cancelled:
            return "cancelled"
        if self.spared:
            return None
        if control.paused and not self.control.paused:
            return "paused"
        slower = any(
            now is not None and (before is None or now < before)
            for before, now in zip(self.control.rates, control.rates, strict=True)
        )
        return "slower" if slower else None
