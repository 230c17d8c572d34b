"""How fast a build works: measured on a sample, or as usual (bench/RESULTS.md)."""

from __future__ import annotations

from dataclasses import dataclass

COPY_BYTES_PER_SECOND = 10_000_000
"""Bytes of data files that one core copies, in its first minutes. Later it may copy twice as many."""
WARM_UP_SECONDS = 4.0
"""What the first round of an application takes in addition: Java compiles then."""
APPLY_ROWS_PER_SECOND = 35_000
"""Changed rows that one core merges."""
COMMIT_SECONDS = 1.5
"""What a barrier takes in addition to its rows."""
MERGE_SECONDS = 4.0
"""What a round of the log takes in addition to its rows."""
START_SECONDS = 10.0
"""What the start of a Spark application takes."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Speeds of a whole application, on all of its cores."""

    copy_bytes: float
    """Bytes of the source's files that are copied per second."""
    apply_rows: float
    """Changed rows that are applied per second."""
    commit_seconds: float = COMMIT_SECONDS
    round_seconds: float = MERGE_SECONDS
    epoch_seconds: float = 0.0
    """What an epoch of the log takes in addition to its rows: it is found and read by itself."""
    start_seconds: float = START_SECONDS
    warm_up_seconds: float = 0.0
    measured: bool = False

    def log_seconds(self, epochs: float, rows: float) -> float:
        """What a round of the log takes with so many epochs and changed rows."""
        return self.round_seconds + epochs * self.epoch_seconds + rows / self.apply_rows

    @staticmethod
    def usual(cores: int) -> Speeds:
        copy, apply = COPY_BYTES_PER_SECOND * cores, APPLY_ROWS_PER_SECOND * cores
        return Speeds(copy, apply, warm_up_seconds=WARM_UP_SECONDS)
