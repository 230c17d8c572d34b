"""What the broker's answer about a partition means for its split.

The landing table is pinned or read first, and the broker asked second. In the other order, records that land in between
would be neither in an applied version nor before a target (S001.21). A log without records means "finished" only
when a split begins; later it means that records are lost. Callers ask the broker twice before they pass on a smaller
end.

Records that Kafka has deleted may be in the landing table, which then replaces Kafka up to the split's floor. Records
that neither has stop the build, or are counted and skipped, as the topic's spec says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import KafkaLost, LandingAhead, SourceReplaced
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.scan import settled, settled_alone
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, Finished

PLAN_AGAIN = (
    "Raise the topic's retention, then plan again with on_existing='restart' and a later topic.first, or with "
    "topic.expired='skip', which counts the missing records and goes on without them"
)
CREATED_AGAIN = (
    "plan again with on_existing='restart'; if the topic has a landing table, first let it land in a new one, or "
    "delete the former topic's rows there, which stops other builds that follow it"
)
SKIP = (
    "To keep the rows that are read, run 'table-backfill skip TARGET' and clear the task: the build counts the missing "
    "records and goes on without them. Or raise the topic's retention, and plan again with on_existing='restart'"
)


@dataclass(frozen=True, slots=True)
class Log:
    """The offsets that the broker can return at our isolation level: ``start <= offset < end``."""

    start: int
    """The log start offset."""
    end: int
    """The last stable offset: no open transaction is before it."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a log: [{self.start}, {self.end})")


@dataclass(frozen=True, slots=True)
class Expiry:
    """What the landing table has of records that Kafka has deleted, and whether the build may skip the rest."""

    kept: Batch | None = None
    """The deleted records that the landing table has, each offset once; None for none."""
    landed: int | None = None
    """The greatest offset that the landing table has."""
    compacted: bool = False
    """Whether offsets between two landed ones may have had no record: ``kept`` then covers all landed rows."""
    skips: bool = False
    """Whether missing records are counted and skipped."""

    def missing(self, gap: Offsets) -> int:
        """How many offsets of ``gap`` are missing. In a compacted topic: those before and after the landed ones."""
        if self.kept is None:
            return len(gap)
        if not self.compacted:
            return len(gap) - self.kept.count
        passed = max(self.kept.greatest, self.kept.greatest if self.landed is None else self.landed)
        return min(max(self.kept.least - gap.start, 0) + max(gap.last - passed, 0), len(gap))


NONE = Expiry()


def opened(partition: int, log: Log, landed: int | None, first: int | None, expiry: Expiry = NONE) -> Split:
    """A new split; it is finished if there is no history to read.

    ``landed`` is the greatest offset in the pinned landing table. ``first`` is where the history starts, None for the
    log's start; records of ``expiry.kept`` come before it and belong to the history. Records before ``first`` count as
    backfilled, so that a landing table that lags cannot add them. LandingAhead if the landing table has offsets that
    the broker does not have: plan pins and asks again. KafkaLost if the log starts after ``first``, or if records
    between ``expiry.kept`` and the log are missing.
    """
    _check_ahead(partition, log, landed)
    if expiry.kept is not None:
        least = expiry.kept.least
        split = Split(partition, scanned=least - 1, landed=landed, end=log.end, target=log.end - 1)
        return _reaching(split, Offsets(least, log.start), log, replace(expiry, landed=landed), PLAN_AGAIN)
    begin = log.start if first is None else first
    if begin < log.start:
        raise _lost(partition, Offsets(begin, log.start), log, log.start - begin)
    before = None if begin == log.start else begin - 1
    split = Split(partition, Backfilling(before), scanned=begin - 1, landed=landed, end=log.end)
    if begin < log.end:
        return replace(split, target=log.end - 1)
    return split.finished() if before is None else settled(split.stopped(before))


def expired(split: Split, log: Log) -> Offsets | None:
    """Offsets that a backfill has not read yet and Kafka has deleted; None for none."""
    start = max(split.scanned + 1, split.floor)
    return Offsets(start, log.start) if isinstance(split.state, Backfilling) and start < log.start else None


def appeared(partition: int, log: Log, landed: int | None, first_landed: int | None) -> Split:
    """The split of a partition that the plan does not have.

    ``landed`` is its greatest offset in applied versions of the landing table, ``first_landed`` its least offset in the
    next ones; None for no row. The split is finished if no row is applied and the next rows begin at the log's start or
    before: then the landing table has all of it. Any other partition is backfilled from offset 0. Errors of ``opened``,
    and KafkaLost if the log starts later: a deleted record may still land, and would then count as backfilled.
    """
    _check_ahead(partition, log, first_landed)
    split = opened(partition, log, landed, None)
    if landed is None and first_landed is not None and first_landed <= log.start:
        return replace(split, state=Finished(), target=None)
    if log.start > 0:
        way_out = "The partition is new to the build: "
        if landed is None:
            way_out += f"let the ingestion land it from offset {log.start} on, and clear the task; or "
        way_out += "plan again with on_existing='restart'"
        raise _lost(partition, Offsets(0, log.start), log, log.start, way_out)
    return split


def asked(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """The split after the broker was asked again within an attempt, which happens before every range that is read.

    The target does not change: only a new attempt or the landing table changes it. SourceReplaced if the end is smaller
    than a known one. KafkaLost if offsets are ``expired`` and the landing table does not have all of them.
    """
    known = max(split.end, -1 if split.landed is None else split.landed + 1)
    if log.end < known:
        raise SourceReplaced(
            f"partition {split.partition} ends at offset {log.end}, but it ended at {known} before: the topic was "
            f"truncated or created again; {CREATED_AGAIN}",
            partition=split.partition,
            end=log.end,
            known=known,
        )
    gap, split = expired(split, log), replace(split, end=log.end)
    return split if gap is None else _reaching(split, gap, log, expiry, SKIP)


def asked_alone(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """``asked`` without a landing table: records after the pinned end belong to the stream that follows."""
    ours = log if split.target is None else Log(min(log.start, split.target + 1), log.end)
    return settled_alone(asked(split, ours, expiry))


def recreated(found: str, partitions: int, planned: str) -> SourceReplaced:
    """The error of a topic whose id is not the planned one."""
    return SourceReplaced(
        f"the topic has id {found} and {partitions} partitions, but id {planned} was planned: it was created again, "
        f"and its offsets mean other records; {CREATED_AGAIN}",
        planned=planned,
        found=found,
    )


def _reaching(split: Split, gap: Offsets, log: Log, expiry: Expiry, way_out: str) -> Split:
    """The split that reads ``gap`` from the landing table. KafkaLost for missing offsets, unless they are skipped."""
    missing = expiry.missing(gap)
    if missing and not expiry.skips:
        raise _lost(split.partition, gap, log, missing, way_out)
    split = replace(split, floor=log.start, lost=split.lost + missing)
    nothing = expiry.kept is None and split.scanned + 1 == gap.start
    return settled(replace(split, scanned=gap.last)) if nothing else split


def reopened(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """The committed split when a new attempt begins: the target is the broker's end again, until a row lands.

    For a build without a landing table use ``asked_alone``: its target is pinned. Errors of ``asked``.
    """
    again = replace(split, target=log.end - 1) if isinstance(split.state, Backfilling) else split
    return asked(again, log, expiry)


def _check_ahead(partition: int, log: Log, landed: int | None) -> None:
    if landed is not None and landed >= log.end:
        raise LandingAhead(
            f"partition {partition}: the landing table has offset {landed}, but the broker's log ends at {log.end}: "
            "table and connection may belong to different clusters, or the topic was created again. The task is "
            f"retried; if that does not help, correct the connection, or: {CREATED_AGAIN}",
            partition=partition,
            landed=landed,
            end=log.end,
        )


def _lost(partition: int, gap: Offsets, log: Log, missing: int, way_out: str = PLAN_AGAIN) -> KafkaLost:
    return KafkaLost(
        f"partition {partition}: the build needs offset {gap.start}, but Kafka's log starts at {log.start}, and no "
        f"landing table has {missing} of the offsets between them. {way_out}",
        partition=partition,
        wanted=gap.start,
        have=log.start,
        missing=missing,
    )
