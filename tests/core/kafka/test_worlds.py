"""Every surviving record once, in order, finished, and cut where the split says: in random worlds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from airflow_backfill.core.kafka.opening import Expiry, asked_alone, opened
from airflow_backfill.core.kafka.scan import after_read, next_range, settled_alone
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Finished
from tests.core.kafka.topic import Partition, batch, inside
from tests.core.kafka.world import World, failing

LEAST = {
    "restart": 300, "range without a record": 50, "stopped at a hole": 30, "stopped by the landing table": 10,
    "repaid a credit": 1, "proven new": 50, "backfilled new": 50, "landing older than the log": 10,
    "retention overtakes": 5, "read what was kept": 20, "passed over": 1,
}  # fmt: skip
"""How often 250 worlds come to what is hard, at least."""


@pytest.mark.slow
def test_whatever_befalls_a_topic_it_is_handed_over() -> None:
    assert failing(range(250)) == []


def test_the_worlds_are_not_too_kind() -> None:
    happened, ends = Counter[str](), Counter[str]()
    for seed in range(250, 500):
        world = World(seed)
        ends[world.run()] += 1
        happened += world.happened
    assert ends["lost"] >= 1 and ends["finished"] >= 220
    assert [name for name, least in LEAST.items() if happened[name] < least] == []


def test_the_wrong_order_of_the_pins_is_noticed() -> None:
    planned_again = 0
    for seed in range(150):
        world = World(seed, swapped=True)
        world.run()
        planned_again += world.happened["planned again"]
    assert planned_again > 20


def alone(seed: int) -> None:
    """History up to a pinned end, then a stream from the end on: every record that survives, once. Retention may take
    anything meanwhile; what of the history it takes is counted.
    """
    rng, partition = random.Random(seed), Partition()
    for _ in range(rng.randrange(8)):
        partition.produce(rng)
    split = settled_alone(opened(0, partition.log, None, None))
    pinned, target, rounds, covered = partition.end, list[int](), 0, 0
    while not isinstance(split.state, Finished):
        partition.produce(rng)
        partition.compact(rng.randint(0, partition.end))
        if rng.random() < 0.1:
            partition.expire(rng.randint(partition.start, partition.end))
        split = asked_alone(Split.from_json(split.to_json()), partition.log, Expiry(skips=True))
        offsets = next_range(split, rng.choice((1, 4, 100)))
        if offsets is None:
            break
        assert offsets.stop <= pinned
        covered += len(offsets)
        rows = partition.between(offsets.start, offsets.stop)
        split, visible = after_read(split, offsets, batch(rows))
        split = settled_alone(split)
        target += inside(rows, visible)
        rounds += 1
        assert rounds <= pinned
    assert isinstance(split.state, Finished) and (pinned == 0 or covered + split.lost == split.scanned + 1 == pinned)
    partition.close(rng)
    target += partition.between(pinned, partition.end)
    assert target == sorted(set(target)) and set(partition.records) <= set(target)
    assert split.dropped == 0


def test_history_and_then_a_stream_without_a_landing_table() -> None:
    for seed in range(1_000):
        alone(seed)
