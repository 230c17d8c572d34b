"""Random worlds: topics that are compacted, cut off and written to while they are handed over, and what must hold.

A world plays the part of Spark and of the ledger: it applies rounds of the scan form, commits splits as JSON together
with rows, forgets what was not committed, and judges the end by what only the topic and the landing table know.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from airflow_backfill.core.errors import KafkaLost, LandingAhead
from airflow_backfill.core.kafka.offsets import Batch
from airflow_backfill.core.kafka.opening import Expiry, appeared, asked, expired, opened, reopened
from airflow_backfill.core.kafka.progress import handed_over, history_done
from airflow_backfill.core.kafka.scan import after_read, after_upstream, landed_through, next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished, rank
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.topic import Landing, Partition, batch, inside
from tests.core.kafka.truth import Lane, Truth, Violation

ROUNDS = 400


class World:
    def __init__(self, seed: int, swapped: bool = False) -> None:
        self.rng = random.Random(seed)
        self.swapped = swapped
        self.topic = {p: Partition() for p in range(self.rng.choice((1, 1, 2, 3)))}
        self.landing = Landing()
        self.lanes = [Lane() for _ in range(self.rng.choice((1, 1, 2)))]
        self.truth: dict[int, Truth] = {}
        self.planned: dict[int, Split] = {}
        self.partitions: list[int] = []
        self.busy = self.rng.choice((0, 10, 30, 60))
        """Rounds in which the topic is still written to."""
        self.exact = self.rng.random() < 0.3
        """Whether the ingestion's own offsets are known, not only the rows of the landing table."""
        self.reckless = self.rng.random() < 0.3
        """Whether retention may overtake the backfill."""
        self.compacted = self.rng.random() < 0.7
        self.skips = self.rng.random() < 0.5
        """Whether what is lost is passed over."""
        self.missed: set[int] = set()
        """Partitions of which the ingestion has passed over something."""
        self.happened: Counter[str] = Counter()

    # ---- what befalls the topic

    def befall(self, chance: float = 0.5) -> None:
        while self.rng.random() < chance:
            self.rng.choice((self.produce, self.produce, self.land, self.land, self.compact, self.expire))()

    def some(self) -> Partition:
        return self.topic[self.rng.choice(list(self.topic))]

    def produce(self) -> None:
        if self.busy > 0:
            self.some().produce(self.rng)

    def land(self, everything: bool = False) -> None:
        rows: dict[int, list[int]] = {}
        for number, partition in self.topic.items():
            end = partition.end
            rows[number] = partition.land(end if everything else self.rng.randint(min(partition.ingested, end), end))
        self.landing.add(rows, {number: partition.ingested for number, partition in self.topic.items()})

    def compact(self) -> None:
        partition = self.some()
        if self.compacted:
            partition.compact(self.rng.randint(0, partition.end))

    def expire(self) -> None:
        number = self.rng.choice(list(self.topic))
        partition, split = self.topic[number], self.splits().get(number, self.planned.get(number))
        limit = min(partition.ingested, partition.end)
        if split is None and number in self.truth:
            return
        if split is not None and isinstance(split.state, Backfilling) and not self.reckless:
            limit = min(limit, split.scanned + 1)
        if self.rng.random() < 0.4 and limit > partition.start:
            partition.expire(self.rng.randint(partition.start, limit))

    def join(self) -> None:
        """A new partition, which the ingestion finds at once or later."""
        partition = self.topic[len(self.topic)] = Partition()
        if self.rng.random() < 0.8:
            partition.produce(self.rng)
        partition.ingested = self.rng.choice((0, self.rng.randint(0, partition.end)))
        self.happened["new partition"] += 1

    # ---- the plan

    def begin(self) -> None:
        for partition in self.topic.values():
            for _ in range(self.rng.randrange(6)):
                partition.produce(self.rng)
            if self.compacted:
                partition.compact(self.rng.randint(0, partition.end))
            partition.ingested = self.rng.choice((0, partition.end, self.rng.randint(0, partition.end)))
        for _ in range(self.rng.randrange(3)):
            self.land()
            # An ingestion that passes over records, which of a compacted topic nobody could tell from older ones.
            if not self.compacted and self.rng.random() < 0.5:
                number = self.rng.choice(list(self.topic))
                self.missed.add(number)
                partition = self.topic[number]
                partition.ingested = self.rng.randint(min(partition.ingested, partition.end), partition.end)
        for partition in self.topic.values():
            if self.rng.random() < 0.3:
                partition.expire(self.rng.randint(0, min(partition.ingested, partition.end)))
        for _ in range(50):
            try:
                return self.plan()
            except LandingAhead:
                self.happened["planned again"] += 1
                self.truth.clear()
        raise Violation("no plan comes about")

    def plan(self) -> None:
        """Pin the landing table, then ask the broker; swapped, the other way round."""
        if self.swapped:
            logs = {number: partition.log for number, partition in self.topic.items()}
            self.befall(0.8)
            pinned = self.landing.head
        else:
            pinned = self.landing.head
            self.befall(0.8)
            logs = {number: partition.log for number, partition in self.topic.items()}
        for number, log in logs.items():
            wanted = self.rng.randint(0, log.end + 2) if self.rng.random() < 0.2 else 0
            landed = self.landing.rows(number, -1, pinned)
            kept = [u for u in landed if wanted <= u < log.start]
            begin = min(kept, default=max(wanted, log.start))
            self.truth[number] = Truth(begin, begin > log.start, pinned)
            self.truth[number].passed = self.topic[number].gone(begin, log.start) - set(landed)
            expiry = Expiry(batch(kept), compacted=self.compacted, skips=self.skips)
            first = max(wanted, log.start) if wanted else None
            self.planned[number] = opened(number, log, max(landed, default=None), first, expiry)
            self.happened["landing older than the log"] += bool(kept)
        self.partitions = list(logs)
        for lane in self.lanes:
            lane.applied = pinned

    # ---- rounds

    def splits(self) -> dict[int, Split]:
        """What is committed, over all lanes."""
        return {number: split for lane in self.lanes for number, split in lane.splits.items()}

    def expiry(self, split: Split, through: int) -> Expiry:
        """What the landing table has of what a split has still to read, and Kafka has lost."""
        partition, gap = self.topic[split.partition], expired(split, self.topic[split.partition].log)
        if gap is None:
            return Expiry()
        landed = self.landing.rows(split.partition, -1, through)
        self.truth[split.partition].passed |= partition.gone(gap.start, gap.stop) - set(landed)
        self.happened["retention overtakes"] += 1
        kept = landed if self.compacted else [u for u in landed if u in gap]
        return Expiry(batch(kept), None, self.compacted, self.skips)

    def load(self, index: int, through: int) -> dict[int, Split]:
        """The splits that a lane's attempt works on: the plan's, then the committed ones, opened again at a restart."""
        lane = self.lanes[index]
        splits = dict(lane.splits)
        if not lane.begun:
            splits = {number: split for number, split in self.planned.items() if number % len(self.lanes) == index}
        if lane.restart:
            self.happened["restart"] += 1
            lane.restart = False
            for number, split in splits.items():
                splits[number] = reopened(split, self.topic[number].log, self.expiry(split, through))
                self.truth[number].told = None
        return splits

    def find(self, splits: dict[int, Split], lane: Lane, through: int) -> None:
        for number in [p for p in self.topic if p not in self.truth]:
            landed = max(self.landing.rows(number, -1, lane.applied), default=None)
            first = min(self.landing.rows(number, lane.applied, through), default=None)
            splits[number] = appeared(number, self.topic[number].log, landed, first)
            self.truth[number] = Truth(self.topic[number].start, False, lane.applied)
            self.happened["proven new" if rank(splits[number].state) else "backfilled new"] += 1

    def round(self, index: int) -> None:
        """One round of a lane: the landing table, then Kafka, then one commit of rows and splits."""
        lane, through = self.lanes[index], self.landing.head
        splits = self.load(index, through)
        if index == 0:
            self.find(splits, lane, through)
        written: dict[int, list[int]] = {number: [] for number in splits}
        returned: dict[int, list[int]] = {number: [] for number in splits}
        covered: dict[int, int] = {}
        for number, split in list(splits.items()):
            was = split
            split = self.upstream(split, lane.applied, through, written[number])
            self.befall(0.3)
            split, last = self.history(split, through, written[number], returned[number])
            if rank(split.state) < rank(was.state) or split.read < was.read:
                raise Violation(f"{split} after {was}")
            splits[number], covered[number] = split, last
        if self.rng.random() < 0.15:
            lane.restart = True
            for number in set(splits) - set(lane.splits) - set(self.planned):
                del self.truth[number]
            return
        lane.begun, lane.applied = True, through
        lane.splits = {
            number: Split.from_json(json.loads(json.dumps(split.to_json()))) for number, split in splits.items()
        }
        for number in splits:
            truth = self.truth[number]
            truth.target += written[number]
            truth.returned += returned[number]
            truth.covered = max(truth.covered, covered[number])

    def upstream(self, split: Split, applied: int, through: int, written: list[int]) -> Split:
        rows = self.landing.rows(split.partition, applied, through)
        if rows:
            was = split
            split, visible = after_upstream(
                split, Batch(rows[0], rows[-1], len(rows)), EpochRange.after(applied, through)
            )
            written += inside(rows, visible)
            self.truth[split.partition].told = rows[-1]
            if isinstance(was.state, Backfilling) and not isinstance(split.state, Backfilling):
                self.happened["stopped by the landing table"] += 1
        if self.exact and through >= 0:
            ingested = self.landing.ingested[through].get(split.partition, 0)
            split = landed_through(split, ingested - 1) if ingested else split
        return split

    def history(self, split: Split, through: int, written: list[int], returned: list[int]) -> tuple[Split, int]:
        """One read of Kafka, or of what the landing table has kept, if there is anything to read; also the last offset
        that is covered by it.
        """
        if not isinstance(split.state, Backfilling):
            return split, -1
        partition, truth = self.topic[split.partition], self.truth[split.partition]
        before, split = split, asked(split, partition.log, self.expiry(split, through))
        offsets = next_range(split, self.rng.choice((1, 3, 10, 1000)))
        if offsets is None:
            return split, split.scanned if split.lost > before.lost else -1
        if truth.told is not None and offsets.last > truth.told:
            raise Violation(f"read up to {offsets.last}, and the landing table was at {truth.told}")
        if partition.start > offsets.start >= split.floor:
            raise Violation(f"read from {offsets.start}, and the log starts at {partition.start}")
        rows = partition.between(offsets.start, offsets.stop)
        if offsets.start < split.floor:
            rows = [u for u in self.landing.rows(split.partition, -1, through) if u in offsets]
            self.happened["read what was kept"] += bool(rows)
        self.happened["range without a record"] += not rows
        split, visible = after_read(split, offsets, batch(rows))
        written += inside(rows, visible)
        returned += rows
        self.happened["stopped at a hole"] += not isinstance(split.state, Backfilling) and offsets.last not in rows
        self.happened["repaid a credit"] += (
            split.cut is not None and split.cut == split.credit and split.cut not in rows
        )
        return split, offsets.last

    def run(self) -> str:
        """Live through the world; how it ended."""
        try:
            self.begin()
        except KafkaLost as lost:
            return self.lose(lost)
        for _ in range(ROUNDS):
            self.busy -= 1
            if self.busy > 0 and self.rng.random() < 0.03:
                self.join()
            self.befall()
            if self.busy < -20:
                self.calm()
            try:
                self.round(self.rng.randrange(len(self.lanes)))
            except KafkaLost as lost:
                if not self.skip(ended := self.lose(lost)):
                    return ended
            if handed_over(self.partitions, self.splits()):
                self.check_left()
                if self.busy <= 0:
                    return self.end()
        raise Violation(f"not finished: {self.splits()}, {self.topic}")

    def calm(self) -> None:
        """The producers have gone and the ingestion is through; where no row can tell, one more record is needed."""
        for partition in self.topic.values():
            partition.close(self.rng)
        self.land(everything=True)
        for number, split in self.splits().items():
            partition = self.topic[number]
            landed = max(self.landing.rows(number, -1, self.landing.head), default=-1)
            waits = isinstance(split.state, CatchingUp) and landed < split.state.offset
            unseen = waits and (landed < 0 or number in self.missed)
            if self.busy < -60 and (unseen or partition.end < self.truth[number].begin or self.from_later(number)):
                partition.records[partition.next] = 0
                partition.next += 1

    def from_later(self, number: int) -> bool:
        """Whether history starts behind the log's start: what is before it need not be a record."""
        split = self.splits()[number]
        return isinstance(split.state, CatchingUp) and split.state.offset == self.truth[number].begin - 1

    # ---- judgement

    def check_left(self) -> None:
        splits = self.splits()
        known = {*self.planned, *splits}
        if any(number not in splits or not isinstance(splits[number].state, Finished) for number in known):
            raise Violation(f"left too early: {splits} of {sorted(known)}")

    def skip(self, ended: str) -> bool:
        """Whether somebody orders that what is lost is passed over: then the tasks are cleared, and begin again."""
        if ended != "lost" or self.rng.random() < 0.3:
            return False
        self.skips = True
        self.happened["skip is ordered"] += 1
        for lane in self.lanes:
            lane.restart = True
        for number in self.truth.keys() - self.splits().keys() - self.planned.keys():
            del self.truth[number]
        return True

    def lose(self, lost: KafkaLost) -> str:
        number, wanted, have = (lost.data[word] for word in ("partition", "wanted", "have"))
        split = self.splits().get(number, self.planned.get(number))
        if split is None and self.partitions and wanted == 0 < have == self.topic[number].start:
            return "appeared, and lost"
        if self.topic[number].start != have or wanted >= have:
            raise Violation(f"not lost: {lost}")
        through = self.landing.head if self.partitions else self.truth[number].applied
        there = {u for u in self.landing.rows(number, -1, through) if wanted <= u < have}
        if self.skips or len(there) == have - wanted:
            raise Violation(f"not lost: {lost}, {there} have landed")
        if not self.partitions:
            return "lost at the plan"
        if not (self.reckless or self.swapped) or split is None:
            raise Violation(f"not lost: {lost}")
        if handed_over(self.partitions, self.splits()) or history_done([number], self.splits()):
            raise Violation("lost, and finished")
        return "lost"

    def end(self) -> str:
        for partition in self.topic.values():
            partition.close(self.rng)
        self.land(everything=True)
        for _ in range(ROUNDS):
            behind = [n for n, lane in enumerate(self.lanes) if lane.applied < self.landing.head]
            known = all(number in self.splits() for number in self.topic)
            if not behind and known and handed_over(self.partitions, self.splits()):
                break
            try:
                for index in behind or [0]:
                    self.round(index)
            except KafkaLost as lost:
                if not self.skip(ended := self.lose(lost)):
                    return ended
            if not behind:
                self.busy -= 1
                self.calm()
        else:
            raise Violation("a new partition is never handed over")
        for number, split in self.splits().items():
            self.judge(split, self.topic[number], self.truth[number])
        return "finished"

    def judge(self, split: Split, partition: Partition, truth: Truth) -> None:
        if any(a >= b for a, b in pairwise(truth.target)):
            raise Violation(f"twice, or out of order: {truth.target}")
        survivors = {u for u in partition.records.keys() | partition.expired if u >= truth.begin}
        lost = survivors - set(truth.target)
        if not lost <= truth.passed or len(lost) > split.lost or (split.lost and not self.skips):
            raise Violation(f"lost: {sorted(lost)}, {split}, {truth}")
        self.happened["passed over"] += bool(lost)
        if truth.chosen and min(truth.target, default=truth.begin) < truth.begin:
            raise Violation(f"rows before {truth.begin}: {truth.target[0]}")
        landed = self.landing.rows(split.partition, truth.applied, self.landing.head)
        cut = -1 if split.cut is None else split.cut
        if truth.target != [k for k in truth.returned if k <= cut] + [u for u in landed if u > cut]:
            raise Violation(f"cut elsewhere than at {split.cut}: {truth}")
        if split.cut is not None and split.cut >= truth.begin > truth.covered:
            raise Violation(f"cut at {split.cut}, never read from {truth.begin}")
        of_kafka = sum(k <= cut for k in truth.returned)
        if (split.read, split.written, split.dropped) != (len(truth.returned), of_kafka, 0):
            raise Violation(f"counted {split}, returned {truth.returned}")


def failing(seeds: Iterable[int]) -> list[tuple[int, str]]:
    """The seeds whose worlds break what must hold, and how."""
    found = []
    for seed in seeds:
        try:
            World(seed).run()
        except Exception as error:
            found.append((seed, f"{type(error).__name__}: {error}"))
    return found
