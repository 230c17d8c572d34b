"""The next round of a topic's partitions: landed rows and the next records of Kafka, in one commit.

The round chooses the epochs of the landing table before it asks the broker, so every offset in them is below the end
offsets that the broker reports. Each partition of the lane advances from its own epoch to the round's epoch. Then the
partitions with unread history share the round's record limit. The lane that owns a new partition decides its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_backfill.core.errors import KafkaLost, PartitionsGrew, SourceUnavailable
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Expiry, Log, appeared, asked, asked_alone, expired, recreated, reopened
from airflow_backfill.core.kafka.progress import check_finished
from airflow_backfill.core.kafka.scan import after_read, after_upstream, landed_through, settled_alone
from airflow_backfill.core.kafka.sizing import ends, fits_any, halved, quota, shared, too_large
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp
from airflow_backfill.core.source.backlog import fitting
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.identity import check_read
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset, Partitions, splits_of
from airflow_backfill.core.state.effect import (
    AskBroker,
    Asks,
    DecodeRecords,
    Fetched,
    FetchRecords,
    Kept,
    Landed,
    Nothing,
    ReadIngested,
    ReadLanded,
    ReadSourceLog,
    TakeOffsets,
    Topic,
)
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move, Observed, Wait
from airflow_backfill.core.strategies.strategy import POLL_MS
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals

LATE = 5
"""The ingestion is late after this many of its usual intervals without a landing (S001.29)."""
PROBE = 1_000
"""Offsets that are searched for a record, to see whether a partition has grown."""
TRIES = 3
"""Tries of a round while retention deletes records faster than they are read."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Apply landed rows, at most ``log`` of them and at most through epoch ``upto``. Read at most ``records`` from
    Kafka for the lane's partitions; None reads nothing.
    """

    log: RoundSize
    records: RoundSize | None = None
    upto: int | None = None


def next_offsets(
    state: BuildState, lane: int, observed: Observed, step: Poll, *, begins: bool
) -> Asks[Move | Wait | None]:
    """The lane's next round, or None if it would change nothing. ``begins``: the first round of an attempt."""
    turn = _Round(state, lane, observed, step)
    yield from turn.look()
    yield from turn.judge(begins=begins)
    turn.take()
    late = yield from turn.late()
    if late is None:
        yield from turn.fetch()
    move = turn.move()
    if move is not None and isinstance(move.work, TakeOffsets):
        decoded = yield from DecodeRecords(move.work, observed.control.dead_letters)
        no_rows = Totals(undecodable_rows=decoded.undecodable, unwanted_rows=decoded.unwanted)
        return replace(move, does=move.does + no_rows)
    return move or late or turn.waiting()


class _Round:
    """A round while it is decided: observations, the new state of each partition, and what is written."""

    def __init__(self, state: BuildState, lane: int, observed: Observed, step: Poll) -> None:
        self.state, self.lane, self.observed, self.step = state, lane, observed, step
        self.history = state.phase is Phase.SNAPSHOT
        mine = {n: p for n, p in enumerate(state.positions) if isinstance(p, AtOffset) and state.owns(lane, n)}
        self.known = {n: position for n, position in mine.items() if not position.unknown}
        # A partition that was only named may have rows in any epoch since the plan.
        looked = mine if self.history else self.known
        self.reads = any(_reading(position.split) for position in looked.values())
        self.since = min((position.epoch for position in looked.values()), default=observed.source.head)
        self.taken = _epochs(self.since, observed, step)
        self.epochs = EpochRange(self.since + 1, self.since + 1 + len(self.taken))
        self.topic: Topic | None = None
        self.sifted = Landed({})
        self.ingested: Mapping[int, int] = {}
        self.stand = self.since + len(self.taken)
        """The round reads the landing table as of this epoch."""
        self.splits: dict[int, Split] = {}
        self.landed: dict[int, Offsets] = {}
        self.read: dict[int, Offsets] = {}
        self.fetched = Fetched({}, 0)
        self.compacted: Kept | None = None
        self.expiry: dict[int, Expiry] = {}
        self.newest = _readable(observed.source, self.since)
        """As of this epoch the landing table replaces deleted records of Kafka, even if the round stops earlier."""
        self._mine, self._alone = mine, state.plan.spec.source is None
        self._asked = asked_alone if self._alone else asked

    def look(self) -> Asks[None]:
        """Ask the broker, if there is history to read, and read what landed."""
        unread = {n: position.split.scanned + 1 for n, position in self.known.items() if position.split.left}
        if self.reads:
            self.topic = yield from _ask(self.state, unread)
        if any(epoch.rows for epoch in self.taken):
            self.sifted = yield from ReadLanded(self.epochs, self.known)
            check_read(self.sifted.last, self.observed.source.commit(self.epochs.last))
        yield from self._look_for_expired({n: position.split for n, position in self.known.items()})
        if self._asks_ingested:
            self.ingested = yield from ReadIngested(self.stand)
        if self.topic is None and any(self.sifted.batches[n].least > 0 for n in self._new if n in self.sifted.batches):
            self.topic = yield from _ask(self.state, {})

    def _look_for_expired(self, splits: Mapping[int, Split]) -> Asks[None]:
        """Look up in the landing table what Kafka has already deleted."""
        planned, topic = self._planned, self.state.plan.spec.topic
        assert topic is not None
        skips = topic.skips or self.observed.control.skips
        gaps = {} if self.topic is None else {n: expired(split, self.topic.logs[n]) for n, split in splits.items()}
        found = {n: gap for n, gap in gaps.items() if gap is not None}
        if planned.compacted and self.topic is not None:
            found = {n: Offsets(0, self.topic.logs[n].end) for n in found}
        kept = Fetched({}, 0)
        if found and not self._alone:
            # Rows that landed before the broker answered count.
            self.newest = _readable((yield from ReadSourceLog(self.since)), self.since)
            kept = yield from FetchRecords({}, hold=False, kept=Kept(found, self.newest))
        for n in found:
            batch, landed = self.sifted.batches.get(n), splits[n].landed
            landed = landed if batch is None else batch.greatest
            self.expiry[n] = Expiry(kept.batches.get(n), landed, planned.compacted, skips)

    @property
    def _planned(self) -> Partitions:
        planned = self.state.plan.splits
        assert isinstance(planned, Partitions)
        return planned

    def _expiry(self, n: int) -> Expiry:
        return self.expiry.get(n, Expiry())

    @property
    def _asks_ingested(self) -> bool:
        """Whether a partition waits for an offset, and the ingestion's checkpoint can say that it is done."""
        topic = self.state.plan.spec.topic
        waits = any(isinstance(position.split.state, CatchingUp) for position in self.known.values())
        return waits and topic is not None and topic.checkpoint is not None

    @property
    def _new(self) -> set[int]:
        """The lane's partitions without a state."""
        # Without a landing table, new partitions belong to the stream after the hand-off.
        logs: Iterable[int] = self.topic.logs if self.topic is not None and not self._alone else ()
        named = {n for n in {*self._mine, *self.sifted.batches, *logs} if self.state.owns(self.lane, n)}
        return named - self.known.keys()

    def judge(self, *, begins: bool) -> Asks[None]:
        """Decide the state of each partition before the round."""
        for n, position in self.known.items():
            split, topic = position.split, self.topic
            again = begins and topic is not None and _reading(split) and not self._alone
            self.splits[n] = reopened(split, topic.logs[n], self._expiry(n)) if again and topic is not None else split
        for n in sorted(self._new):
            _check_ordered(self.state, n)
            batch = self.sifted.batches.get(n)
            if batch is not None or (self.history and self.topic is not None and n in self.topic.logs):
                self.splits[n] = yield from _appeared(n, self.topic, batch, history=self.history)

    def take(self) -> None:
        """Account for landed rows, before records are fetched."""
        for n, batch in self.sifted.batches.items():
            if n in self.splits:
                self.splits[n], visible = after_upstream(self.splits[n], batch, self.epochs)
                self.landed |= {n: visible} if visible is not None else {}
        for n, split in self.splits.items():
            if isinstance(split.state, CatchingUp) and self.ingested.get(n, 0) > split.state.offset:
                self.splits[n] = landed_through(split, split.state.offset)
            if self.topic is not None and _reading(split):
                self.splits[n] = self.topic.dated(self._asked(split, self.topic.logs[n], self._expiry(n)))

    def late(self) -> Asks[Wait | None]:
        """The reason to read no history now: the topic grows, but nothing lands (S001.29).

        The new offsets must hold a record: markers and aborted records never land.
        """
        source, now = self.observed.source, self.observed.now
        silent = self.observed.looks.age(source.head, source.at, source.at, now)
        if self.topic is None or source.interval is None or silent <= LATE * source.interval:
            return None
        logs = self.topic.logs
        new = {n: (max(p.split.end, p.split.next_to_land, logs[n].start), logs[n].end) for n, p in self.known.items()}
        grown = {n: Offsets(start, min(stop, start + PROBE)) for n, (start, stop) in new.items() if start < stop}
        try:
            found = (yield from FetchRecords(grown, hold=False)) if grown else Fetched({}, 0)
        except KafkaLost:
            return None  # deleted since the broker was asked: whether there was a record is not known
        if not found.batches:
            return None
        why = (
            f"the landing table is late: nothing has landed for {silent // 1000} s, and partition "
            f"{min(found.batches)} of the topic has grown; check that the ingestion runs"
        )
        return Wait(now + POLL_MS, why, say=True)

    def fetch(self) -> Asks[None]:
        ranges: dict[int, Offsets] = {}
        for tries in range(TRIES):
            try:
                ranges = yield from self._sized()
                if ranges:
                    self.fetched = yield from self._fetch(ranges, hold=True)
                break
            except KafkaLost as lost:
                yield from self._ask_again()  # raises, unless they have landed or may be skipped
                if tries + 1 == TRIES:
                    raise SourceUnavailable(
                        "Kafka deletes records of the topic faster than a round reads them; the round is repeated. If "
                        "that does not help, raise the topic's retention"
                    ) from lost
        self.compacted = self._compacted({n: some for n, some in ranges.items() if not self._kept(n, some)})
        for n, covered in ranges.items():
            self.splits[n], visible = after_read(self.splits[n], covered, self.fetched.batches.get(n))
            self.read |= {n: visible} if visible is not None else {}
            self.splits[n] = settled_alone(self.splits[n]) if self._alone else self.splits[n]

    def _sized(self) -> Asks[dict[int, Offsets]]:
        """The offsets to fetch, about as many as the round may have bytes."""
        size, last = self.step.records, self._read_last
        if size is None:
            return {}
        ranges = shared(self.splits.values(), quota(size, last.snapshot_rows, last.snapshot_bytes))
        while not fits_any(ranges, size):
            looked = yield from self._fetch(ends(ranges), hold=False)
            if not too_large(ranges, looked.bytes, size):
                break
            ranges = halved(self.splits.values(), ranges)
        return ranges

    @property
    def _read_last(self) -> Totals:
        """What the lane's last round has read; all rounds, if that is unknown."""
        barrier = self.state.lanes[self.lane]
        last = Totals() if barrier is None else barrier.record.work
        return last if last.snapshot_rows else self.state.totals

    def _fetch(self, ranges: Mapping[int, Offsets], *, hold: bool) -> Asks[Fetched]:
        kept = {n: some for n, some in ranges.items() if self._kept(n, some)}
        there = {n: some for n, some in ranges.items() if n not in kept}
        return (yield from FetchRecords(there, hold, Kept(kept, self.newest) if kept else None))

    def _kept(self, partition: int, offsets: Offsets) -> bool:
        """Whether the landing table has to replace these records."""
        return offsets.start < self.splits[partition].floor

    def _compacted(self, there: Mapping[int, Offsets]) -> Kept | None:
        """Offset ranges in which compaction may have removed a tombstone whose row is already in the target.

        Whether Kafka compacts the topic is not asked: that may have changed since the plan, or be a secret.
        """
        holes = {}
        if self._alone or not self.state.plan.spec.key:
            return None
        for n, covered in there.items():
            batch, landed = self.fetched.batches.get(n), self.splits[n].landed
            whole = batch is not None and batch.count == len(covered)
            if not whole and landed is not None and landed >= covered.start:
                holes[n] = Offsets(covered.start, min(covered.stop, landed + 1))
        return Kept(holes, self.newest) if holes else None

    def _ask_again(self) -> Asks[None]:
        """Retention deleted records meanwhile: they are in the landing table, or lost."""
        self.topic = yield from _ask(self.state, {})
        yield from self._look_for_expired(self.splits)
        for n, split in self.splits.items():
            if _reading(split):
                self.splits[n] = self._asked(split, self.topic.logs[n], self._expiry(n))

    def waiting(self) -> Wait | None:
        """The wait for an offset that has to land; None if no partition waits for one."""
        behind = {n: split.state.offset for n, split in self.splits.items() if isinstance(split.state, CatchingUp)}
        if not behind:
            return None
        first, more = min(behind), f" (and {len(behind) - 1} more partitions)" if len(behind) > 1 else ""
        why = f"offset {behind[first]} of partition {first} was read, but has not landed yet{more}"
        return Wait(self.observed.now + POLL_MS, why, say=True)

    def move(self) -> Move | None:
        """The round's barrier, or None if no partition advances."""
        before, stand = self.state.positions, self.stand
        # Partitions of other lanes get a position too, so that their landed rows are not overlooked.
        count = max(*self.splits, *self.sifted.batches, -1, -1) + 1
        positions = list(self.state.plan.splits.widened(before, count, self.state.plan.source.epoch))
        for n, split in self.splits.items():
            known = self.known.get(n)
            positions[n] = AtOffset(stand, split) if known is None else _further(known, max(stand, known.epoch), split)
        if [position.rank for position in positions] == [position.rank for position in before]:
            return None
        if not self.history:
            check_finished(self.splits)
        epochs = self.epochs if self.landed else None
        work = TakeOffsets(self.read, epochs, self.landed, self.sifted.repeated > 0, self.compacted)
        return Move(
            Event.OFFSETS if self.history else Event.EPOCHS,
            work=work if self.read or self.landed or self.compacted else Nothing(),
            positions=tuple(positions),
            does=_totals(self.state, self.epochs, self.sifted, self.fetched),
            rows=sum(batch.count for batch in self.fetched.batches.values())
            + sum(self.sifted.batches[n].count for n in self.landed),
            bytes=self.fetched.bytes + sum(epoch.bytes for epoch in self.taken if self.landed),
            epochs=self.epochs if self.taken else None,
        )


def _further(known: AtOffset, epoch: int, split: Split) -> AtOffset:
    """The new position of a partition. A new end offset alone is no progress and needs no barrier."""
    as_before = replace(split, end=known.split.end)
    return known if AtOffset(epoch, as_before).rank == known.rank else AtOffset(epoch, split)


def _readable(view: SourceView, since: int) -> int:
    """The newest epoch before one that stops the build."""
    stopping = view.pending(since).stopping
    return view.head if stopping is None else stopping.number - 1


def _epochs(since: int, observed: Observed, step: Poll) -> Sequence[Epoch]:
    """The epochs of the landing table for this round. Raises the reason if the first one stops the build."""
    pending = observed.source.pending(since)
    pending = pending if step.upto is None else pending[: max(step.upto - since, 0)]
    if pending and pending[0].stop is not None:
        raise pending[0].stop
    return fitting(pending, step.log)


def _ask(state: BuildState, unread: Mapping[int, int]) -> Asks[Topic]:
    """The topic as the broker reports it. Raises SourceReplaced if it is not the planned topic."""
    topic = yield from AskBroker(unread)
    planned = state.plan.splits
    assert isinstance(planned, Partitions)
    gone = [n for n in splits_of(state.positions) if n not in topic.logs and not state.positions[n].unknown]
    if topic.id != planned.topic_id or gone:
        raise recreated(topic.id, len(topic.logs), planned.topic_id)
    return topic


def _reading(split: Split) -> bool:
    return isinstance(split.state, Backfilling)


def _appeared(partition: int, topic: Topic | None, batch: Batch | None, *, history: bool) -> Asks[Split]:
    """A partition's first split. If it landed from its first offset on, no broker is needed. After the hand-off, Kafka
    may show that there is no record before the first landed offset.
    """
    if topic is None:
        assert batch is not None
        return appeared(partition, Log(0, batch.greatest + 1), None, batch.least)
    # The brokers were asked after it landed: one that they do not know is another topic's.
    log = topic.logs.get(partition, Log(0, 0))
    if partition in topic.logs and batch is not None and batch.least > log.start and not history:
        fetched = yield from FetchRecords({partition: Offsets(log.start, batch.least)}, hold=False)
        log = log if fetched.batches else Log(batch.least, log.end)
    return appeared(partition, log, None, batch.least if batch is not None else None)


def _check_ordered(state: BuildState, partition: int) -> None:
    """Raise PartitionsGrew if a key may now be in two partitions, and no column orders its records."""
    spec = state.plan.spec
    if spec.key and spec.topic is not None and spec.topic.order is None:
        raise PartitionsGrew(
            f"partition {partition} has appeared, so keys may move to other partitions; name a column that orders the "
            "records of a key (topic.order), and plan the build again with on_existing='restart'",
            partition=partition,
        )


def _totals(state: BuildState, epochs: EpochRange, sifted: Landed, fetched: Fetched) -> Totals:
    if state.phase is Phase.SNAPSHOT:
        records = sum(batch.count for batch in fetched.batches.values())
        return Totals(snapshot_bytes=fetched.bytes, snapshot_rows=records, repeated_rows=sifted.repeated)
    if state.phase in (Phase.FINISHED, Phase.UPSTREAM):
        return Totals(upstream_epochs=len(epochs), repeated_rows=sifted.repeated)
    return Totals(log_epochs=len(epochs), repeated_rows=sifted.repeated)
