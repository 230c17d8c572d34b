"""How much a round takes. This sets the peak of memory, and how much work a kill loses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.control import Control

ROUND_BYTES = 2 << 30
ROUND_ROWS = 20_000_000
"""Defaults of a round on few cores."""
CORE_BYTES = 256 << 20
CORE_ROWS = 2_500_000
"""Defaults for each core, if there are more than a few: with 2 GiB, a thousand cores would write files of 2 MiB, and
spend most of their time on commits. They take up to half a minute.
"""
ROUND_EPOCHS = 1_000
"""Each epoch is a commit to read, and a part of Spark's query plan."""
ROUND_FILES = 100_000
"""File actions of commits: the driver keeps them in memory for the whole round."""
ROUND_CUTS = 16
"""Epochs with ``cuts``: each adds a part to the union in Spark's query plan."""
ROUND_SECONDS = 5
"""A throttled round takes the rate times this."""
PART_SECONDS = 30
"""A part of an epoch takes the rate times this: more, because every part reads the epoch's change data again."""


@dataclass(frozen=True, slots=True)
class RoundSize:
    """A round of the snapshot ends with the file or chunk that reaches ``bytes`` or ``rows``. A round of the log ends
    before the epoch that would exceed any of the limits.
    """

    bytes: int = ROUND_BYTES
    rows: int = ROUND_ROWS
    epochs: int = ROUND_EPOCHS
    files: int = ROUND_FILES
    cuts: int = ROUND_CUTS

    @staticmethod
    def on(cores: int, bytes: int | None = None, rows: int | None = None) -> RoundSize:
        """The size of a round on so many cores. ``bytes`` and ``rows`` are kept if they are given."""
        return RoundSize(
            max(ROUND_BYTES, cores * CORE_BYTES) if bytes is None else bytes,
            max(ROUND_ROWS, cores * CORE_ROWS) if rows is None else rows,
        )

    def holds(self, bytes: int, rows: int, files: int, cuts: int) -> bool:
        """Whether changes of this size fit one round."""
        return bytes <= self.bytes and rows <= self.rows and files <= self.files and cuts <= self.cuts

    def limited(self, control: Control, seconds: int = ROUND_SECONDS) -> RoundSize:
        """The size of a round under the throttle in force: at most its rates times ``seconds``."""
        rows, size = (seconds * rate if rate else None for rate in control.rates)
        return replace(self, bytes=min(self.bytes, size or self.bytes), rows=min(self.rows, rows or self.rows))

    def __post_init__(self) -> None:
        for name, value in (("round_bytes", self.bytes), ("round_rows", self.rows)):
            if type(value) is not int or value < 1:
                raise InvalidSpec(f"{name}: must be a whole number of at least 1 (got {value!r})", field=name)


def round_options(round_bytes: int | None, round_rows: int | None) -> list[str]:
    """The size of a round on an application's command line; InvalidSpec if a limit is no positive whole number."""
    RoundSize.on(1, round_bytes, round_rows)
    given = {"--round-bytes": round_bytes, "--round-rows": round_rows}
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
