"""The next round of a topic's partitions: what landed of them, and the next records of Kafka, in one commit (seed 001).

The landing table comes first: its epochs are chosen before the broker is asked, so that every offset in them is below
the ends that it names. Each partition of the lane is taken from its own epoch to the round's; then those that still
have history to read share what the round may fetch. A partition that nobody knew is judged by the lane that owns it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from airflow_backfill.core.effect import Ask, Effect, Fetch, Fetched, Nothing, Sift, Sifted, TakeOffsets, Topic
from airflow_backfill.core.epoch import EpochRange
from airflow_backfill.core.errors import PartitionIncomplete, SourceReplaced
from airflow_backfill.core.folding import widened
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, appeared, asked, reopened
from airflow_backfill.core.kafka.partitions import RECORD_BYTES, Partitions
from airflow_backfill.core.kafka.scan import after_read, after_upstream, next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, Finished
from airflow_backfill.core.phase import Event, Phase
from airflow_backfill.core.position import AtOffset, rank, unknown
from airflow_backfill.core.round_size import RoundSize
from airflow_backfill.core.source import Epoch, fitting
from airflow_backfill.core.state import BuildState
from airflow_backfill.core.step import Move, Observed, Poll
from airflow_backfill.core.totals import Totals


def next_offsets(
    state: BuildState, lane: int, seen: Observed, step: Poll, *, begins: bool
) -> Generator[Effect, Any, Move | None]:
    """The lane's next round, or None if there is nothing to it. ``begins``: it is the first of its attempt."""
    mine = {n: p for n, p in enumerate(state.positions) if isinstance(p, AtOffset) and state.owns(lane, n)}
    history = state.phase is Phase.SNAPSHOT
    known = {n: position for n, position in mine.items() if not unknown(position)}
    since = min((p.epoch for p in (mine if history else known).values()), default=seen.source.head)
    taken = _epochs(since, seen, step)
    epochs = EpochRange(since + 1, since + 1 + len(taken))
    reads = any(_reading(position.split) for position in (mine if history else known).values())
    topic = (yield from _ask(state)) if reads else None
    sifted: Sifted = (yield Sift(epochs, known)) if any(epoch.rows for epoch in taken) else Sifted({})
    new = {n for n in {*mine, *sifted.batches, *_partitions(topic)} if state.owns(lane, n)} - known.keys()
    if topic is None and any(n in sifted.batches and sifted.batches[n].least > 0 for n in new):
        topic = yield from _ask(state)
    splits = {n: _reopened(p.split, topic) if begins else p.split for n, p in known.items()}
    for n in new:
        if n in sifted.batches or (history and n in _partitions(topic)):
            splits[n] = yield from _appeared(n, topic, sifted.batches.get(n), history=history)
    landed: dict[int, Offsets] = {}
    for n, batch in sifted.batches.items():
        if n in splits:
            splits[n], visible = after_upstream(splits[n], batch, epochs)
            landed |= {n: visible} if visible is not None else {}
    splits = {n: asked(split, topic.logs[n]) if topic and _reading(split) else split for n, split in splits.items()}
    ranges = _ranges(splits, step.records, state.totals)
    fetched: Fetched = (yield Fetch(ranges)) if ranges else Fetched({}, 0)
    read: dict[int, Offsets] = {}
    for n, covered in ranges.items():
        splits[n], visible = after_read(splits[n], covered, fetched.batches.get(n))
        read |= {n: visible} if visible is not None else {}
    stand = since + len(taken)
    # A partition of another lane is named, so that nobody takes what landed of it for nothing.
    positions = list(widened(state, state.positions, max(*splits, *sifted.batches, -1, -1) + 1))
    for n, split in splits.items():
        positions[n] = AtOffset(max(stand, known[n].epoch) if n in known else stand, split)
    if list(map(rank, positions)) == list(map(rank, state.positions)):
        return None
    if not history:
        _check_finished(splits)
    work = TakeOffsets(read, epochs if landed else None, landed, sifted.repeated > 0) if read or landed else Nothing()
    return Move(
        Event.OFFSETS if history else Event.EPOCHS,
        work=work,
        positions=tuple(positions),
        does=_totals(state, epochs, sifted, fetched),
        rows=sum(batch.count for batch in fetched.batches.values()),
        epochs=epochs if taken else None,
        changes=step.changes,
    )


def _epochs(since: int, seen: Observed, step: Poll) -> Sequence[Epoch]:
    """What of the landing table the round takes; raises what stops the build at the first of it."""
    pending = [epoch for epoch in seen.source.pending(since) if step.upto is None or epoch.number <= step.upto]
    if pending and pending[0].stop is not None:
        raise pending[0].stop
    return fitting(pending, step.log)


def _ask(state: BuildState) -> Generator[Effect, Any, Topic]:
    """What the broker says of the topic. SourceReplaced if it is not the one that was planned."""
    topic: Topic = yield Ask()
    planned = state.plan.splits
    assert isinstance(planned, Partitions)
    gone = [n for n in state.topic if n not in topic.logs and not unknown(state.positions[n])]
    if topic.id != planned.topic_id or gone:
        raise SourceReplaced(
            f"the topic has id {topic.id} and {len(topic.logs)} partitions, the build knows id {planned.topic_id} and "
            f"{len(state.positions)}: it was created again",
            planned=planned.topic_id,
            found=topic.id,
        )
    return topic


def _reading(split: Split) -> bool:
    return isinstance(split.state, Backfilling)


def _partitions(topic: Topic | None) -> Iterable[int]:
    return topic.logs if topic is not None else ()


def _reopened(split: Split, topic: Topic | None) -> Split:
    return reopened(split, topic.logs[split.partition]) if topic is not None and _reading(split) else split


def _appeared(
    partition: int, topic: Topic | None, batch: Batch | None, *, history: bool
) -> Generator[Effect, Any, Split]:
    """A partition's first split. One that has landed from its very first offset on needs no broker to say so. Where no
    history is read any more, Kafka may still show that it holds nothing before the first offset that landed.
    """
    if topic is None:
        assert batch is not None
        return appeared(partition, Log(0, batch.greatest + 1), None, batch.least)
    log = topic.logs[partition]
    if batch is not None and batch.least > log.start and not history:
        before = Offsets(log.start, batch.least)
        fetched: Fetched = yield Fetch({partition: before})
        log = log if fetched.batches else Log(batch.least, log.end)
    return appeared(partition, log, None, batch.least if batch is not None else None)


def _ranges(splits: Mapping[int, Split], size: RoundSize | None, totals: Totals) -> dict[int, Offsets]:
    """What to fetch: the round's records are shared out evenly, and what one partition leaves goes to the others."""
    if size is None:
        return {}
    each = totals.snapshot_bytes // totals.snapshot_rows if totals.snapshot_rows else RECORD_BYTES
    budget = min(size.rows, size.bytes // max(each, 1))
    reading = sorted((split for split in splits.values() if split.left), key=lambda split: split.left)
    ranges = {}
    for place, split in enumerate(reading):
        found = next_range(split, max(budget // (len(reading) - place), 1))
        if found is not None:
            ranges[split.partition] = found
            budget -= len(found)
    return ranges


def _check_finished(splits: Mapping[int, Split]) -> None:
    """PartitionIncomplete if a partition has appeared whose history would have to be read now."""
    for split in splits.values():
        if not isinstance(split.state, Finished):
            raise PartitionIncomplete(
                f"partition {split.partition} has appeared, and the landing table has not all of it: its history needs "
                "a build of its own",
                partition=split.partition,
            )


def _totals(state: BuildState, epochs: EpochRange, sifted: Sifted, fetched: Fetched) -> Totals:
    if state.phase is Phase.SNAPSHOT:
        records = sum(batch.count for batch in fetched.batches.values())
        return Totals(snapshot_bytes=fetched.bytes, snapshot_rows=records, repeated_rows=sifted.repeated)
    if state.phase in (Phase.FINISHED, Phase.UPSTREAM):
        return Totals(upstream_epochs=len(epochs), repeated_rows=sifted.repeated)
    return Totals(log_epochs=len(epochs), repeated_rows=sifted.repeated)
