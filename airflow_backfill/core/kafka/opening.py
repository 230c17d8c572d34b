"""What the broker's answer about a partition means for its split.

The landing table is pinned or looked at first, and the broker asked second: the other way round, records landed in
between are in no version that will be applied, and beyond every target (seed 001). That a log without records means
"finished" is believed once, when a split begins; later it means that records are lost. Ask twice before a smaller end
is passed on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import KafkaLost, LandingAhead, SourceReplaced
from airflow_backfill.core.kafka.scan import settled
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, Finished


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


def opened(partition: int, log: Log, landed: int | None, first: int | None) -> Split:
    """A new split, which has history to read unless the log has none.

    ``landed`` is the greatest offset in the pinned landing table, ``first`` where the history is to start, None for
    the log's start. History before ``first`` counts as backfilled, so that a landing table that lags behind it cannot
    bring it. LandingAhead if the landing table holds what the broker does not have: plan pins and asks again. KafkaLost
    if the log no longer reaches back to ``first``.
    """
    _check_ahead(partition, log, landed)
    begin = log.start if first is None else first
    if begin < log.start:
        raise _lost(partition, begin, log)
    before = None if begin == log.start else begin - 1
    split = Split(partition, Backfilling(before), scanned=begin - 1, landed=landed, end=log.end)
    if begin < log.end:
        return replace(split, target=log.end - 1)
    return split.finished() if before is None else settled(split.stopped(before))


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
        raise _lost(partition, 0, log)
    return split


def asked(split: Split, log: Log) -> Split:
    """The split after the broker was asked again, within an attempt: before every range that is read.

    The target stands: only a new attempt or the landing table move it. SourceReplaced if the end is before one that is
    known already: truncated, or created again. KafkaLost if the log starts beyond what a backfill would read next.
    """
    known = max(split.end, -1 if split.landed is None else split.landed + 1)
    if log.end < known:
        raise SourceReplaced(
            f"partition {split.partition} ends at {log.end} and has been at {known}: truncated, or created again",
            partition=split.partition,
            end=log.end,
            known=known,
        )
    if isinstance(split.state, Backfilling) and log.start > split.scanned + 1:
        raise _lost(split.partition, split.scanned + 1, log)
    return replace(split, end=log.end)


def reopened(split: Split, log: Log) -> Split:
    """The committed split as a new attempt begins: the target is the broker's end again until a row lands.

    Not for a build without a landing table, whose target is pinned: ``asked``. Errors of ``asked``.
    """
    split = asked(split, log)
    return replace(split, target=log.end - 1) if isinstance(split.state, Backfilling) else split


def _check_ahead(partition: int, log: Log, landed: int | None) -> None:
    if landed is not None and landed >= log.end:
        raise LandingAhead(
            f"partition {partition} has landed up to {landed}, and the broker ends at {log.end}",
            partition=partition,
            landed=landed,
            end=log.end,
        )


def _lost(partition: int, wanted: int, log: Log) -> KafkaLost:
    return KafkaLost(
        f"partition {partition}: offset {wanted} is wanted, the log starts at {log.start}",
        partition=partition,
        wanted=wanted,
        have=log.start,
    )
