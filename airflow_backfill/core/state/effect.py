"""Effects: all I/O of core, as requests that an attempt yields.

An attempt is a generator that yields effects and receives their answers. Spark's interpreter performs them on a real
target. The simulation performs them on a model, and can crash at every one of them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.offsets import Batch, Offsets, is_offset
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.announcement import Announcement
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.fence import Fence
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.core.values.commit import Commit, CommitId
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash

A = TypeVar("A", covariant=True)


class Effect(Generic[A]):
    """One request, with the type of its answer: ``head = yield from ReadHead()``."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[Any], Any, A]:
        answer: A = yield self
        return answer


Asks: TypeAlias = Generator[Effect[Any], Any, A]
"""A generator that yields effects, receives their answers, and returns an ``A``."""


@dataclass(frozen=True, slots=True)
class ReadHead(Effect[int]):
    """Answer: the newest version of the target's log (int)."""


@dataclass(frozen=True, slots=True)
class ReadCommit(Effect[Commit]):
    """Answer: the target's Commit of this version. Raises HistoryLost if the log no longer holds it."""

    version: int


@dataclass(frozen=True, slots=True)
class ReadPlan(Effect[Plan | None]):
    """Answer: the Plan of a build, or None if there is none."""

    build: str


@dataclass(frozen=True, slots=True)
class CommitPlan(Effect["CommitOutcome"]):
    """Commit the plan as the record of seq 1 of its lane. Answer: a CommitOutcome, which proves nothing."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class CopyPlan(Effect[None]):
    """Copy the committed plan into the target's backfill folder, where ReadPlan finds it. Answer: None."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class ReadCommands(Effect["CommandsRead"]):
    """Answer: CommandsRead."""

    files: bool
    """Whether to list the pinned snapshot's files, too."""
    spared: bool = False
    """Whether only a cancel may interrupt the next round."""


@dataclass(frozen=True, slots=True)
class FileSize:
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class CommandsRead:
    now: int
    """Milliseconds since 1970."""
    commands: Sequence[tuple[int, Command]]
    """All commands of the build, with their numbers."""
    files: Sequence[FileSize] = ()
    """The pinned snapshot's files in the plan's order."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Transaction ids of the target."""


@dataclass(frozen=True, slots=True)
class ReadSourceLog(Effect[SourceView]):
    """Answer: a SourceView of the commits after this epoch."""

    after: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """A barrier without rows."""


@dataclass(frozen=True, slots=True)
class AppendFiles:
    """Append these files of the pinned snapshot: half-open runs of indices into the plan's order."""

    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ApplyEpochs:
    """Apply the changes of ``epochs``; if ``of`` > 1, only key bucket ``bucket`` of ``of`` of a single epoch."""

    epochs: EpochRange
    bucket: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class RewriteKeys:
    """Rewrite every key whose rows differ from the transformed source at an epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """Bring every range to ``epoch``, up to its position in ``after``. So far it is at the epoch before ``changes``, up
    to its position in ``before``.

    Keys up to the old position get the ``changes``; rows between the old and the new position are read at ``epoch``. No
    key is in both. Any other combination of epochs and positions loses or duplicates rows (S004.28).
    """

    epoch: int
    changes: EpochRange | None
    before: tuple[Position, ...]
    after: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class TakeOffsets:
    """Add the held records at the offsets in ``fetched``, and the landing table's rows of ``epochs`` at the offsets in
    ``landed``; both by partition. They are disjoint, new to the target, and already decoded.
    """

    fetched: Mapping[int, Offsets]
    epochs: EpochRange | None = None
    landed: Mapping[int, Offsets] = field(default_factory=dict)
    repeats: bool = False
    """Whether the landing table has some of these offsets twice."""
    compacted: Kept | None = None
    """Ranges in which compaction may have deleted records before they were fetched: landed tombstones apply there."""


Work = Nothing | AppendFiles | ApplyEpochs | ReadRanges | TakeOffsets | RewriteKeys


@dataclass(frozen=True, slots=True)
class NextChunk(Effect["Chunks"]):
    """Ask where the next rows of the ranges end at an epoch, about ``bytes`` or ``rows`` of them. Answer: Chunks."""

    epoch: int
    positions: tuple[Position, ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where the next rows of each range end: at a key, or None if the range is then complete. ``ends`` is empty only if
    all ranges are complete.
    """

    ends: Mapping[int, Key | None]
    files: int
    bytes: int
    """The size of the files that have to be opened."""
    rows: int
    """The rows of the source at that epoch; each has a unique key."""


@dataclass(frozen=True, slots=True)
class AskBroker(Effect["Topic"]):
    """Ask the broker for the partitions of the topic. Answer: Topic."""

    unread: Mapping[int, int] = field(default_factory=dict)
    """By partition: the first unread offset. The answer includes the time of its record."""


@dataclass(frozen=True, slots=True)
class Topic:
    id: str
    logs: Mapping[int, Log]
    """By partition."""
    oldest: Mapping[int, int] = field(default_factory=dict)
    """By partition: when the first unread record was written, milliseconds since 1970; no entry if unknown."""
    kept_ms: int | None = None
    """How long Kafka keeps a record; None without a limit of time, or if that is unknown."""

    def dated(self, split: Split) -> Split:
        """The split with the age of its first unread record, and when that may be deleted."""
        oldest = self.oldest.get(split.partition)
        expires = 0 if oldest is None or self.kept_ms is None else oldest + self.kept_ms
        # Some keep a topic for ever by the largest number that there is.
        return replace(split, oldest=oldest, expires=expires if is_offset(expires) else 0)


@dataclass(frozen=True, slots=True)
class ReadLanded(Effect["Landed"]):
    """Ask which offsets the landing table received in ``epochs``, by partition. Answer: Landed.

    Offsets that it already had are left out. Raises OffsetsInvalid for a new offset that is less than an earlier one.
    """

    epochs: EpochRange
    known: Mapping[int, AtOffset]
    """By partition: rows up to the position's epoch are left out. A partition that is missing here is new."""


@dataclass(frozen=True, slots=True)
class Landed:
    batches: Mapping[int, Batch]
    """By partition: the new rows, each offset counted once."""
    repeated: int = 0
    """Rows whose offset the landing table already had, or has twice."""
    last: CommitId | None = field(default=None, compare=False)
    """The commit of the last epoch, as it was read; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class ReadIngested(Effect[Mapping[int, int]]):
    """Ask up to which offset of each partition the landing table is complete at an epoch. Answer: exclusive offsets by
    partition; no entry if unknown.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Ranges from which Kafka has deleted records: the landing table's rows at an epoch replace them, once each."""

    ranges: Mapping[int, Offsets]
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchRecords(Effect["Fetched"]):
    """Read ranges of the topic and ``kept``, and hold the records for the next CommitRecord. Answer: Fetched, for both.

    Raises KafkaLost if Kafka has deleted the start of a range when it is read.
    """

    ranges: Mapping[int, Offsets]
    hold: bool = True
    """If False, the records are only counted."""
    kept: Kept | None = None
    """Ranges of other partitions that are read from the landing table."""


@dataclass(frozen=True, slots=True)
class Fetched:
    batches: Mapping[int, Batch]
    """By partition; no entry for a range without records."""
    bytes: int
    """The total size of keys and values."""


@dataclass(frozen=True, slots=True)
class DecodeRecords(Effect["Decoded"]):
    """Decode the records of ``work``, hold them for the next CommitRecord, and write undecodable ones to the table of
    dead letters. Answer: Decoded. Raises Undecodable for an undecodable record if there is no such table.
    """

    work: TakeOffsets
    dead_letters: bool = False
    """Whether that table is beside the target, if the plan names none."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records that do not become rows, each counted once."""

    undecodable: int
    unwanted: int
    """Decoded records that the user's filter drops."""


@dataclass(frozen=True, slots=True)
class CommitRecord(Effect["CommitOutcome"]):
    """Commit ``record`` and ``work`` in one commit. Answer: a CommitOutcome, which proves nothing."""

    record: Record | Announcement | Fence
    work: Work


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The answer that the client got. Only the log shows whether the commit happened."""

    conflict: str | None = None
    """The kind of conflict that the store reported."""
    error: BackfillError | None = None
    """Any other failure. It is raised if the log does not contain the commit."""


@dataclass(frozen=True, slots=True)
class VerifyTarget(Effect[Certificate]):
    """Compare the target's version with the transformed source at an epoch. Answer: a Certificate.

    Raises VerificationFailed if they differ; errors of the comparison itself are raised unchanged.
    """

    epoch: int
    target_version: int
    positions: tuple[Position, ...]
    row_hash: RowHash
    kind: ProofKind
    no_rows: int = 0
    """The number of records of a topic that became no row."""
    sample: float = 0.0
    """The share of the source that an incremental proof reads again, or of both sides that a sampled one compares; 0
    stands for what is usual.
    """


@dataclass(frozen=True, slots=True)
class ReadCost(Effect[Cost]):
    """Add up what all attempts at the build have cost, up to now. Answer: a Cost."""


@dataclass(frozen=True, slots=True)
class ReadTransactions(Effect["Transactions"]):
    """Read the target's transaction ids from Delta, which keeps them longer than commits. Answer: Transactions."""


@dataclass(frozen=True, slots=True)
class Transactions:
    table_id: str
    versions: Mapping[str, int]
    """The greatest version of each application id."""


@dataclass(frozen=True, slots=True)
class SleepUntil(Effect[None]):
    """Wait at most until a time (milliseconds since 1970). Answer: None."""

    until: int
    now: int
    """When that was decided."""
    why: str
    for_commit: bool = False
    """Whether it is a wait for what the application's other thread commits: then each commit of that thread ends it."""

    def left(self, now: int) -> int:
        """Milliseconds to wait, if it is ``now``: never more than when it was decided, although the clock may have been
        set back since.
        """
        return max(min(self.until - now, self.until - self.now), 0)
