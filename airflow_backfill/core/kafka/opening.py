"""What the broker's answer about a partition means for its split.

The landing table is pinned or looked at first, and the broker asked second: the other way round, records landed in
between are in no version that will be applied, and beyond every target (S001.21). That a log without records means
"finished" is believed once, when a split begins; later it means that records are lost. Ask twice before a smaller end
is passed on.

What Kafka has lost of a history may be in the landing table, which then stands in for Kafka up to the split's floor.
What neither has stops the build, or is counted and passed over, as the topic's spec says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import KafkaLost, LandingAhead, SourceReplaced
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.scan import settled, settled_alone
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, Finished

PLAN_AGAIN = (
    "Raise the topic's retention, then plan again with on_existing='restart': with a later topic.first, or with "
    "topic.expired='skip', which counts what is missing and goes on from what is left"
)
SKIP = (
    "To keep what was read, order 'table-backfill skip' and clear the task: what is missing is counted, and the build "
    "goes on from what is left. Or raise the topic's retention, and plan again with on_existing='restart'"
)


@dataclass(frozen=True, slots=True)
class Log:
    """The records that the broker can hand out to our isolation level: ``start <= offset < end``."""

    start: int
    """The log start offset."""
    end: int
    """The last stable offset: the next one that a reader would get, so that no open transaction is before it."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a log: [{self.start}, {self.end})")


@dataclass(frozen=True, slots=True)
class Expiry:
    """What is known, and wanted, where Kafka has lost records of a history."""

    kept: Batch | None = None
    """What the landing table has of them, each offset once; None for nothing."""
    landed: int | None = None
    """The greatest offset that the landing table has."""
    compacted: bool = False
    """Whether an offset between two that landed need not have been a record: ``kept`` is of all that has landed."""
    skips: bool = False
    """Whether what is missing is passed over."""

    def missing(self, gap: Offsets) -> int:
        """How many offsets of ``gap`` neither has: of a compacted topic those that the ingestion never came past."""
        if self.kept is None:
            return len(gap)
        if not self.compacted:
            return len(gap) - self.kept.count
        passed = max(self.kept.greatest, self.kept.greatest if self.landed is None else self.landed)
        return max(self.kept.least - gap.start, 0) + max(gap.last - passed, 0)


NONE = Expiry()


def opened(partition: int, log: Log, landed: int | None, first: int | None, expiry: Expiry = NONE) -> Split:
    """A new split, which has history to read unless there is none.

    ``landed`` is the greatest offset in the pinned landing table, ``first`` where the history is to start, None for
    the log's start. What ``expiry`` says is kept comes before it, and is of the history, too. History before ``first``
    counts as backfilled, so that a landing table that lags behind it cannot bring it. LandingAhead if the landing table
    holds what the broker does not have: plan pins and asks again. KafkaLost if the log no longer reaches back to
    ``first``, or if records are missing between what is kept and the log.
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
    """What a backfill has still to read, and Kafka has lost since it was asked last; None for nothing."""
    start = max(split.scanned + 1, split.floor)
    return Offsets(start, log.start) if isinstance(split.state, Backfilling) and start < log.start else None


def appeared(partition: int, log: Log, landed: int | None, first_landed: int | None) -> Split:
    """The split of a partition that the plan does not have: finished if the landing table is proven to have all of it.

    ``landed`` is its greatest offset in the versions that were applied already, ``first_landed`` its least one in those
    that come next; None for no row. Proven is what has no row in the former, and in the latter one from the log's start
    on. All else is backfilled from its very first record on. Errors of ``opened``, and KafkaLost if the log does not
    reach back to that: what is gone may still land, where it would count as backfilled.
    """
    _check_ahead(partition, log, first_landed)
    split = opened(partition, log, landed, None)
    if landed is None and first_landed is not None and first_landed <= log.start:
        return replace(split, state=Finished(), target=None)
    if log.start > 0:
        raise _lost(partition, Offsets(0, log.start), log, log.start)
    return split


def asked(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """The split after the broker was asked again, within an attempt: before every range that is read.

    The target stands: only a new attempt or the landing table move it. SourceReplaced if the end is before one that is
    known already: truncated, or created again. KafkaLost if the log starts beyond what a backfill would read next, and
    the landing table has not all of what is ``expired``.
    """
    known = max(split.end, -1 if split.landed is None else split.landed + 1)
    if log.end < known:
        raise SourceReplaced(
            f"partition {split.partition} ends at {log.end} and has been at {known}: truncated, or created again",
            partition=split.partition,
            end=log.end,
            known=known,
        )
    gap, split = expired(split, log), replace(split, end=log.end)
    return split if gap is None else _reaching(split, gap, log, expiry, SKIP)


def asked_alone(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """``asked``, for a build without a landing table: what comes after the pinned end is of the stream that follows."""
    ours = log if split.target is None else Log(min(log.start, split.target + 1), log.end)
    return settled_alone(asked(split, ours, expiry))


def _reaching(split: Split, gap: Offsets, log: Log, expiry: Expiry, way_out: str) -> Split:
    """The split with ``gap`` read from the landing table, as far as that has it."""
    missing = expiry.missing(gap)
    if missing and not expiry.skips:
        raise _lost(split.partition, gap, log, missing, way_out)
    split = replace(split, floor=log.start, lost=split.lost + missing)
    nothing = expiry.kept is None and split.scanned + 1 == gap.start
    return settled(replace(split, scanned=gap.last)) if nothing else split


def reopened(split: Split, log: Log, expiry: Expiry = NONE) -> Split:
    """The committed split as a new attempt begins: the target is the broker's end again until a row lands.

    Not for a build without a landing table, whose target is pinned: ``asked_alone``. Errors of ``asked``.
    """
    again = replace(split, target=log.end - 1) if isinstance(split.state, Backfilling) else split
    return asked(again, log, expiry)


def _check_ahead(partition: int, log: Log, landed: int | None) -> None:
    if landed is not None and landed >= log.end:
        raise LandingAhead(
            f"partition {partition} has landed up to {landed}, and the broker ends at {log.end}",
            partition=partition,
            landed=landed,
            end=log.end,
        )


def _lost(partition: int, gap: Offsets, log: Log, missing: int, way_out: str = PLAN_AGAIN) -> KafkaLost:
    return KafkaLost(
        f"partition {partition}: offset {gap.start} is wanted, the log starts at {log.start}, and no landing table has "
        f"{missing} of the offsets between them. {way_out}",
        partition=partition,
        wanted=gap.start,
        have=log.start,
        missing=missing,
    )
