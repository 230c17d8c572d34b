"""How much a round takes up: the peak of memory and the grain of resuming are set by it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.core.control import Control
from airflow_backfill.core.errors import InvalidSpec

ROUND_BYTES = 2 << 30
ROUND_ROWS = 20_000_000
"""What a round takes up if nobody says otherwise."""
SECONDS = 5
"""Of a throttle's rate in one round."""


@dataclass(frozen=True, slots=True)
class RoundSize:
    """A round ends with the unit that reaches ``bytes`` or ``rows``, whichever is first."""

    bytes: int = ROUND_BYTES
    rows: int = ROUND_ROWS

    def limited(self, control: Control) -> RoundSize:
        """The size of a round under the throttle that is in force: what it lets through in five seconds."""
        rows, size = (SECONDS * rate if rate else None for rate in control.rates)
        return RoundSize(min(self.bytes, size or self.bytes), min(self.rows, rows or self.rows))

    def __post_init__(self) -> None:
        for name, value in (("round_bytes", self.bytes), ("round_rows", self.rows)):
            if type(value) is not int or value < 1:
                raise InvalidSpec(f"{name}: must be a whole number of at least 1 (got {value!r})", field=name)
