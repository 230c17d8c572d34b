"""How fast a build works: measured on a sample, or as usual (bench/RESULTS.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.values.proof_kind import ProofKind

COPY_BYTES_PER_SECOND = 7_000_000
"""Bytes of data files that one core copies, in its first minutes. Later it may copy twice as many."""
WARM_UP_SECONDS = 3.0
"""What the first round of the snapshot, and the one of the log, take in addition: Java compiles then."""
APPLY_ROWS_PER_SECOND = 35_000
"""Changed rows that one core merges."""
COMMIT_SECONDS = 1.0
"""What a barrier takes in addition to its rows."""
MERGE_SECONDS = 3.0
"""What a round of the log takes in addition to what it reads and merges."""
EPOCH_SECONDS = 0.1
"""What an epoch of the log takes in addition to its rows: it is found and read by itself."""
KEYS_TO_COPY = 10
"""How many times as fast as a file is copied, a MERGE reads its keys."""
PROOF_TO_COPY = {ProofKind.FULL: 0.7, ProofKind.INCREMENTAL: 0.35, ProofKind.SAMPLED: 0.02}
"""What a proof takes, as a share of a copy of the same rows."""
PROOF_READS = {ProofKind.FULL: 2.0, ProofKind.INCREMENTAL: 1.0, ProofKind.SAMPLED: 0.02}
"""How many times the bytes of the copy a proof reads."""
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
    start_seconds: float = START_SECONDS
    warm_up_seconds: float = 0.0
    """What the first round of the snapshot takes in addition."""
    log_warm_up_seconds: float = 0.0
    """What the first round of the log takes in addition."""
    measured: bool = False
    crowding: float = 1.0
    """How many times as long as usual everything takes, because others work on the same cores, the store is slow, or
    the machine is slow or fast; contained in the other figures.
    """

    def log_seconds(self, epochs: int, rows: int, touched_bytes: float) -> float:
        """What a round of the log takes with so many epochs and changed rows, which lie in so many bytes of files."""
        merging = rows / self.apply_rows + touched_bytes / (KEYS_TO_COPY * self.copy_bytes)
        return self.round_seconds + epochs * self.epoch_seconds + merging

    def crowded(self, factor: float) -> Speeds:
        """The speeds where all of it takes ``factor`` times as long. The start of an application takes no longer: most
        of it is waiting.
        """
        return replace(
            self,
            copy_bytes=self.copy_bytes / factor,
            apply_rows=self.apply_rows / factor,
            commit_seconds=self.commit_seconds * factor,
            round_seconds=self.round_seconds * factor,
            epoch_seconds=self.epoch_seconds * factor,
            warm_up_seconds=self.warm_up_seconds * factor,
            log_warm_up_seconds=self.log_warm_up_seconds * factor,
            crowding=self.crowding * factor,
        )

    @staticmethod
    def usual(cores: int) -> Speeds:
        return Speeds(
            COPY_BYTES_PER_SECOND * cores,
            APPLY_ROWS_PER_SECOND * cores,
            epoch_seconds=EPOCH_SECONDS,
            warm_up_seconds=WARM_UP_SECONDS,
            log_warm_up_seconds=WARM_UP_SECONDS,
        )
