"""A strategy that the package does not know: pinned files again, but each split as a whole, the last one first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model import registry
from airflow_backfill.core.splits import kinds
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.splits.splits import Splits
from airflow_backfill.core.state.effect import AppendFiles, Asks, Nothing
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Held, Move, Observed, Read, Wait
from airflow_backfill.core.strategies.strategy import Progress
from airflow_backfill.core.strategies.table import TableStrategy
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.totals import Totals

NAME = "backwards"


@dataclass(frozen=True, slots=True)
class Waiting(Position):
    """Nothing of the split is in the target."""

    rank = (-1, 0, 0)
    newest_epoch = None
    begun = False
    read = False

    def may_become(self, after: Position) -> bool:
        return isinstance(after, Waiting | Consumed)

    def to_json(self) -> dict[str, Any]:
        return {"state": "waiting"}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Waiting | None:
        return Waiting() if value == {"state": "waiting"} else None


@dataclass(frozen=True, slots=True)
class Blocks(Splits):
    """Runs of the pinned files, as of a snapshot."""

    borders: tuple[int, ...]
    bytes: int
    rows: int | None

    def __len__(self) -> int:
        return len(self.borders) - 1

    @property
    def sound(self) -> bool:
        return len(self) > 0 and self.borders[0] == 0

    def first(self, epoch: int) -> tuple[Position, ...]:
        return (Waiting(),) * len(self)

    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        if set(positions) - {Waiting(), Consumed(epoch)}:
            raise RecordInvalid(f"blocks cannot stand at {positions}")

    def to_json(self) -> dict[str, Any]:
        return {"blocks": list(self.borders), "bytes": self.bytes, "rows": self.rows}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Blocks | None:
        return Blocks(tuple(value["blocks"]), value["bytes"], value["rows"]) if "blocks" in value else None


class Backwards(TableStrategy):
    name = NAME
    why = "what is in the last files is wanted first"
    on_spark = "tests.fifth_strategy_on_spark"

    def read(
        self, state: BuildState, lane: int, observed: Observed, step: Read, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        yield from ()
        if held is not None:
            return held.wait
        blocks, positions = state.plan.splits, list(state.positions)
        assert isinstance(blocks, Blocks)
        split = max(n for n, position in enumerate(positions) if position == Waiting() and state.owns(lane, n))
        start, stop = blocks.borders[split : split + 2]
        positions[split] = Consumed(state.plan.source.epoch)
        size = sum(file.bytes for file in observed.files[start:stop])
        work = AppendFiles(((start, stop),)) if stop > start else Nothing()
        return Move(Event.FILES, work, tuple(positions), Totals(stop - start, size), bytes=size)

    def progress(self, state: BuildState) -> Progress:
        return Progress("blocks", sum(p != Waiting() for p in state.positions), len(state.plan.splits))


def register() -> None:
    """Once, however often it is called."""
    if NAME not in registry.names():
        registry.register(Backwards())
        kinds.register(Blocks, Waiting)
