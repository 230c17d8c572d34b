"""A round keeps its size, although Kafka does not say how large records are, and although they may suddenly grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.sizing import LARGE_RECORD, TOLERANCE
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.state.step import Move
from airflow_backfill.core.strategies.offsets_round import Poll, next_offsets
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model.test_record import FULL
from tests.core.strategies.test_source import plan, seen

GIB = 1 << 30
SIZE = RoundSize(bytes=2 * GIB)
Bytes = Callable[[int, int], int]
"""The size of all records of a partition below an offset."""


def jumps(at: Mapping[int, int], before: int = 1_000, after: int = 1_000_000) -> Bytes:
    """Records of another size from an offset of each partition on."""
    return lambda n, offset: min(offset, at[n]) * before + max(offset - at[n], 0) * after


class History:
    """Rounds over a topic, one after the other."""

    def __init__(self, ends: Mapping[int, int], below: Bytes, size: RoundSize = SIZE) -> None:
        self.topic = fx.Topic("id", {n: Log(0, end) for n, end in ends.items()})
        self.state, self.below, self.size = BuildState.planned(plan(self.topic.logs)), below, size
        self.rounds: list[tuple[int, int]] = []
        """Records and bytes of each."""
        self.looked = 0
        """Bytes of what was read to be counted only."""

    def _bytes(self, ranges: Mapping[int, Offsets]) -> int:
        return sum(self.below(n, some.stop) - self.below(n, some.start) for n, some in ranges.items())

    def read(self) -> None:
        while any(position.split.left for position in self.state.positions):  # type: ignore[union-attr]
            self._round()

    def _round(self) -> None:
        generator, answer = next_offsets(self.state, 0, seen(), Poll(self.size, self.size), begins=False), None
        while True:
            try:
                effect: Any = generator.send(answer)
            except StopIteration as stop:
                return self._commit(stop.value)
            answer = self._answer(effect)

    def _answer(self, effect: Any) -> Any:
        if isinstance(effect, fx.AskBroker):
            return self.topic
        if isinstance(effect, fx.DecodeRecords):
            return fx.Decoded(0, 0)
        batches = {n: Batch(some.start, some.last, len(some)) for n, some in effect.ranges.items()}
        found = fx.Fetched(batches, self._bytes(effect.ranges))
        if effect.hold:
            self.rounds.append((sum(map(len, effect.ranges.values())), found.bytes))
        else:
            self.looked += found.bytes
        return found

    def _commit(self, move: Any) -> None:
        assert isinstance(move, Move) and move.positions is not None
        said = {"event": move.event, "phase": Phase.SNAPSHOT, "positions": move.positions}
        record = replace(FULL, lane=0, others={}, totals=self.state.totals, work=move.does, **said)
        barrier = Barrier(self.state.proven + 1, 0, record, move.rows)
        self.state = replace(self.state, positions=move.positions, lanes=(barrier,), newest=barrier)


@pytest.mark.parametrize(
    ("ends", "below"),
    [
        ({0: 5_000_000}, jumps({0: 3_141_592})),
        ({0: 2_000_000, 1: 1_000_000, 2: 10}, jumps({0: 700_000, 1: 1_000_000, 2: 0})),
        (dict.fromkeys(range(40), 50_000), jumps(dict.fromkeys(range(40), 41_234))),
        ({0: 20_000}, jumps({0: 100})),
    ],
    ids=["one partition", "one of three", "40 partitions", "in the first round"],
)
def test_records_that_grow_a_thousandfold_make_no_large_round_and_few_small_ones(
    ends: dict[int, int], below: Bytes
) -> None:
    history = History(ends, below)
    history.read()
    assert sum(records for records, _ in history.rounds) == sum(ends.values())
    bound = (TOLERANCE + 1) * SIZE.bytes
    assert max(size for _, size in history.rounds) <= bound, "one round reads too much"
    everything = sum(size for _, size in history.rounds)
    assert len(history.rounds) <= 2 * everything / SIZE.bytes + 20, "rounds are too small"
    assert history.looked < everything / 4, "looking costs too much"


def test_records_that_shrink_a_thousandfold_are_soon_read_in_large_rounds_again() -> None:
    history = History({0: 4_000_000}, jumps({0: 10_000}, before=1_000_000, after=1_000))
    history.read()
    assert max(size for _, size in history.rounds) <= (TOLERANCE + 1) * SIZE.bytes
    assert len(history.rounds) < 20


def test_a_round_that_cannot_be_too_large_is_not_looked_at() -> None:
    history = History({0: SIZE.bytes // LARGE_RECORD}, jumps({0: 0}))
    history.read()
    assert history.looked == 0 and len(history.rounds) == 1


def test_a_round_is_never_smaller_than_one_record_of_each_partition() -> None:
    history = History({0: 5, 1: 5}, jumps({0: 0, 1: 0}), RoundSize(bytes=1))
    history.read()
    assert [records for records, _ in history.rounds] == [2] * 5
