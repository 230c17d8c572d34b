"""History up to a pinned end, then a stream from the end on, without a landing table."""

from __future__ import annotations

import random

from airflow_backfill.core.kafka.opening import Expiry, asked_alone, opened
from airflow_backfill.core.kafka.scan import after_read, next_range, settled_alone
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Finished
from tests.core.kafka.topic import Partition, batch, inside


def alone(seed: int) -> None:
    """Every record that survives comes once. Retention may take anything meanwhile; what of the history it takes is
    counted.
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
