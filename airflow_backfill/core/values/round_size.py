"""How much a round takes up: the peak of memory and the grain of resuming are set by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.control import Control

ROUND_BYTES = 2 << 30
ROUND_ROWS = 20_000_000
"""What a round takes up if nobody says otherwise."""
ROUND_EPOCHS = 1_000
"""Each is a commit to read, and stands in the plan that Spark makes of the round."""
ROUND_FILES = 100_000
"""File actions of commits, which the driver remembers for as long as the round lasts."""
ROUND_CUTS = 16
"""Each begins another part of the union that Spark plans."""
SECONDS = 5
"""Of a throttle's rate in one round."""
PART_SECONDS = 30
"""Of a throttle's rate in one part of an epoch: each of them reads the epoch's change data anew."""


@dataclass(frozen=True, slots=True)
class RoundSize:
    """A round ends with the unit that reaches ``bytes`` or ``rows``, whichever is first; of the log, before what would
    exceed any of these.
    """

    bytes: int = ROUND_BYTES
    rows: int = ROUND_ROWS
    epochs: int = ROUND_EPOCHS
    files: int = ROUND_FILES
    cuts: int = ROUND_CUTS

    def holds(self, bytes: int, rows: int, files: int, cuts: int) -> bool:
        """Whether changes of so much fit one round."""
        return bytes <= self.bytes and rows <= self.rows and files <= self.files and cuts <= self.cuts

    def limited(self, control: Control, seconds: int = SECONDS) -> RoundSize:
        """The size of a round under the throttle that is in force: what it lets through in so many seconds."""
        rows, size = (seconds * rate if rate else None for rate in control.rates)
        return replace(self, bytes=min(self.bytes, size or self.bytes), rows=min(self.rows, rows or self.rows))

    def __post_init__(self) -> None:
        for name, value in (("round_bytes", self.bytes), ("round_rows", self.rows)):
            if type(value) is not int or value < 1:
                raise InvalidSpec(f"{name}: must be a whole number of at least 1 (got {value!r})", field=name)
