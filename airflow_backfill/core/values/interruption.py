"""Which commands stop a unit of work where it is, and do not wait for its end: one may take an hour.

What people call back at once is a cancel, a pause, and a slower rate. What is interrupted has written nothing, or the
log shows it: the attempt reads it as after every write, sees the command, and does what it says. Who pauses and resumes
again and again does not stop a build for ever: after a few rounds were lost in a row, the next one is let pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_backfill.core.values.control import Command, Control, obey

PATIENCE = 3
"""Units that commands may interrupt in a row, a cancel excepted."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A unit of work, by what was in force as it was begun. ``spared``: it is interrupted by a cancel only."""

    control: Control
    spared: bool

    @staticmethod
    def under(commands: Sequence[tuple[int, Command]], *, spared: bool) -> Begun:
        """After these commands. A cancel among them was lifted, or nothing would have begun."""
        return Begun(replace(obey(Control(), commands), cancelled=False, drop=False), spared)

    def stopped_by(self, commands: Sequence[tuple[int, Command]]) -> str | None:
        """What in these commands stops it, in words; None if nothing does."""
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
