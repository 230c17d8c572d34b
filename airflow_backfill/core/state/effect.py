"""What an attempt asks of the world: the only ways in which core touches anything.

An attempt is a generator that yields effects and is sent their answers. Spark's interpreter answers them with a real
target; the simulation with a model, in which every effect is a place to crash.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.model.announcement import Announcement
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.fence import Fence
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.epoch import EpochRange

A = TypeVar("A", covariant=True)


class Effect(Generic[A]):
    """One thing that is asked of the world, with the type of its answer: ``head = yield from ReadHead()``."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[Any], Any, A]:
        answer: A = yield self
        return answer


Asks: TypeAlias = Generator[Effect[Any], Any, A]
"""A generator that asks for effects, is sent their answers, and returns an ``A``."""


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
    """Commit the plan as the record of seq 1 of its lane. Answer: CommitOutcome, which proves nothing."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class CopyPlan(Effect[None]):
    """Copy the plan that won beside the target, where ReadPlan finds it. Answer: None."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class ReadCommands(Effect["CommandsRead"]):
    """Answer: CommandsRead."""

    files: bool
    """Whether the pinned snapshot's files are needed, too."""
    spared: bool = False
    """Whether what is done next is interrupted by a cancel only."""


@dataclass(frozen=True, slots=True)
class FileSize:
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class CommandsRead:
    now: int
    """Milliseconds since 1970."""
    commands: Sequence[tuple[int, Command]]
    """All numbered commands of the build."""
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
    """Apply the changes of ``epochs``; of the key bucket ``bucket`` of ``of`` only, if the epoch is split."""

    epochs: EpochRange
    bucket: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class RewriteKeys:
    """Rewrite every key whose rows are not what the transformed source says at an epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """Make every range what the source says at ``epoch``, up to its position in ``after``; it was so at the epoch
    before ``changes``, up to its position in ``before``.

    Changes of keys at or before the old position, and the rows between the old and the new one read at ``epoch``: the
    keys of the two are disjoint. Any other pairing of the epoch read with the positions filtered by loses rows or
    doubles them (S004.28).
    """

    epoch: int
    changes: EpochRange | None
    before: tuple[Position, ...]
    after: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class TakeOffsets:
    """Add the records of a topic that were fetched last, those in ``fetched``, and the rows of the landing table in
    ``epochs`` that have the offsets in ``landed``: all by partition. They are disjoint, and new to the target, and were
    decoded last.
    """

    fetched: Mapping[int, Offsets]
    epochs: EpochRange | None = None
    landed: Mapping[int, Offsets] = field(default_factory=dict)
    repeats: bool = False
    """Whether the landing table has some of these offsets twice."""
    compacted: Kept | None = None
    """Where records may have been compacted away before they were fetched: a tombstone that has landed there counts."""


Work = Nothing | AppendFiles | ApplyEpochs | ReadRanges | TakeOffsets | RewriteKeys


@dataclass(frozen=True, slots=True)
class NextChunk(Effect["Chunks"]):
    """Ask for the next rows of the ranges, about as many as ``size`` says, at an epoch. Answer: Chunks."""

    epoch: int
    positions: tuple[Position, ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where the next rows of the ranges end: ``ends`` has the key for a range that goes on, None for one that is then
    complete. Never empty before all ranges are.
    """

    ends: Mapping[int, Key | None]
    files: int
    bytes: int
    """Of the files that have to be opened for it."""
    rows: int
    """Counted: they are in the source at that epoch, and each has a key of its own."""


@dataclass(frozen=True, slots=True)
class AskBroker(Effect["Topic"]):
    """Ask the broker for the partitions of the topic. Answer: Topic."""

    unread: Mapping[int, int] = field(default_factory=dict)
    """By partition: the first offset that is not read yet. How old its record is, is asked as well."""


@dataclass(frozen=True, slots=True)
class Topic:
    id: str
    logs: Mapping[int, Log]
    """By partition."""
    oldest: Mapping[int, int] = field(default_factory=dict)
    """By partition: when the first unread record was written, milliseconds since 1970; none where nobody knows."""


@dataclass(frozen=True, slots=True)
class ReadLanded(Effect["Landed"]):
    """Ask which offsets the landing table got in ``epochs``, by partition. Answer: Landed.

    What it had before already is left out. Raises OffsetsInvalid for an offset that is not greater than all before it,
    and new.
    """

    epochs: EpochRange
    known: Mapping[int, AtOffset]
    """By partition: nothing is wanted up to its own epoch. One that is not among them is new."""


@dataclass(frozen=True, slots=True)
class Landed:
    batches: Mapping[int, Batch]
    """By partition: what is new, each offset counted once."""
    repeated: int = 0
    """Rows that the landing table had already, or has twice."""


@dataclass(frozen=True, slots=True)
class ReadIngested(Effect[Mapping[int, int]]):
    """Ask up to which offset of each partition the landing table has, at an epoch, all that it will ever have. Answer:
    an offset by partition, exclusive; none where nobody knows.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Ranges of which Kafka has lost records: what the landing table has of them at an epoch, each offset once."""

    ranges: Mapping[int, Offsets]
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchRecords(Effect["Fetched"]):
    """Read ranges of the topic, by partition, and hold the records for the next CommitRecord. Answer: Fetched, of both.

    Raises KafkaLost if a range begins before the log does by the time it is read.
    """

    ranges: Mapping[int, Offsets]
    hold: bool = True
    """False for a look: the records are only counted."""
    kept: Kept | None = None
    """What is read elsewhere, of other partitions."""


@dataclass(frozen=True, slots=True)
class Fetched:
    batches: Mapping[int, Batch]
    """By partition, if there is a record in its range."""
    bytes: int
    """Of keys and values."""


@dataclass(frozen=True, slots=True)
class DecodeRecords(Effect["Decoded"]):
    """Decode the records that ``work`` takes, hold them for the next CommitRecord, and put undecodable ones into their
    table. Answer: Decoded. Raises Undecodable if there are some, and no table for them.
    """

    work: TakeOffsets


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records that become no row, each counted once."""

    undecodable: int
    unwanted: int
    """Decoded, and outside of the user's filter."""


@dataclass(frozen=True, slots=True)
class CommitRecord(Effect["CommitOutcome"]):
    """Commit ``record`` together with ``work``, in one commit. Answer: CommitOutcome, which proves nothing."""

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

    Raises VerificationFailed if they differ; an error of the comparison is raised as it is, never a pass.
    """

    epoch: int
    target_version: int
    positions: tuple[Position, ...]
    no_rows: int = 0
    """The number of records of a topic that became no row."""


@dataclass(frozen=True, slots=True)
class ReadTransactions(Effect["Transactions"]):
    """The transaction ids of the target, from Delta itself, which keeps them longer than commits. Answer:
    Transactions.
    """


@dataclass(frozen=True, slots=True)
class Transactions:
    table_id: str
    versions: Mapping[str, int]
    """The greatest version of each application id."""


@dataclass(frozen=True, slots=True)
class SleepUntil(Effect[None]):
    """Wait at most until a time (milliseconds since 1970). Answer: None."""

    until: int
    why: str
