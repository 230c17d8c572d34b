"""Positions: how far a split is.

A position carries only what its variant owns. Positions of one split are totally ordered and only ever grow
(seed 003, the order of ``update_progress``). ``AtFile(n)`` means that n files of the split are in the target;
``AtKey(e, n, key)`` that its rows up to ``key``, n chunks, stand at epoch e (seed 004); ``Consumed(e)`` that the split
stands at epoch e; ``AtOffset(e, split)`` that a partition of a topic is as far as its split says, at epoch e of the
landing table (seed 001); ``InEpoch`` that it stands at e - 1 or an earlier epoch and the first ``done`` of ``of`` key
buckets of the epochs up to e are in the target, which is not yet a claim of e.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import PositionRegressed, RecordInvalid
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Finished
from airflow_backfill.core.kafka.state import rank as rank_of_state
from airflow_backfill.core.model.key_ranges import Key


@dataclass(frozen=True, slots=True)
class AtFile:
    files: int


@dataclass(frozen=True, slots=True)
class AtKey:
    epoch: int
    chunks: int
    key: Key = ()


@dataclass(frozen=True, slots=True)
class AtOffset:
    epoch: int
    split: Split


@dataclass(frozen=True, slots=True)
class InEpoch:
    epoch: int
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Consumed:
    epoch: int


Position = AtFile | AtKey | AtOffset | InEpoch | Consumed


def rank(position: Position) -> tuple[int, ...]:
    """The place of a position in the order of its split. Two positions with one rank are the same progress."""
    match position:
        case AtFile(files):
            return (-1, 0, files)
        case AtKey(epoch, chunks, _):
            return (epoch, -1, chunks)
        case AtOffset(epoch, split):
            return (epoch, -1, split.scanned, rank_of_state(split.state), split.end)
        case InEpoch(epoch, done, _):
            return (epoch, 0, done)
        case Consumed(epoch):
            return (epoch, 1, 0)


def complete(position: Position) -> int | None:
    """The epoch at which a split stands of which nothing is left to read; None for one that is still read, or that
    stands between epochs.
    """
    match position:
        case Consumed(epoch):
            return epoch
        case AtOffset(epoch, Split(state=Finished())):
            return epoch
        case _:
            return None


def newest_epoch(positions: Iterable[Position]) -> int | None:
    """The last epoch of which anything is in the target besides the pinned one; None if there is none."""
    return max((p.epoch for p in positions if not isinstance(p, AtFile)), default=None)


def unknown(position: Position) -> bool:
    """Whether it is a partition's of which nothing is known but that there are later ones."""
    return isinstance(position, AtOffset) and position.split == Split(position.split.partition)


def later(one: Position, other: Position) -> Position:
    """The further of two positions of one split."""
    return one if rank(one) >= rank(other) else other


def check_successor(split: int, before: Position, after: Position) -> None:
    """Raise PositionRegressed unless ``after`` may follow ``before`` (standing still is allowed)."""
    if rank(after) < rank(before):
        raise PositionRegressed(
            f"split {split} cannot go from {before} to {after}",
            split=split,
            before=to_json(before),
            after=to_json(after),
        )
    match before, after:
        case AtOffset(_, one), AtOffset(_, other):
            one.check_successor(other)
            legal = True
        case (AtOffset(), _) | (_, AtOffset()):
            legal = False
        case AtFile() | AtKey(), InEpoch():
            legal = False
        case AtKey(_, n, key), AtKey(_, m, further):
            # Which of two keys is the further one only Spark knows; that it moved with its chunk is seen here.
            legal = (m == n and further == key) or (m == n + 1 and further not in (key, ()))
        case _, AtKey():
            legal = False
        case InEpoch(e, _, of), InEpoch(f, _, of2) if e == f:
            legal = of == of2
        case InEpoch(e, _, _), InEpoch(f, _, _) | Consumed(f) if e != f:
            legal = False
        case _:
            legal = True
    if not legal:
        raise PositionRegressed(
            f"split {split} cannot go from {before} to {after}",
            split=split,
            before=to_json(before),
            after=to_json(after),
        )


def to_json(position: Position) -> Any:
    match position:
        case AtFile(files):
            return files
        case AtKey(epoch, chunks, key):
            return [epoch, chunks, list(key)]
        case AtOffset(epoch, split):
            return [epoch, split.to_json()]
        case Consumed(epoch):
            return [epoch]
        case InEpoch(epoch, done, of):
            return [epoch, done, of]


def from_json(value: Any) -> Position:
    match value:
        case bool():
            pass
        case list() if bool in map(type, value):
            pass
        case int() if value >= 0:
            return AtFile(value)
        case [int(epoch)] if epoch >= 0:
            return Consumed(epoch)
        case [int(epoch), dict(split)] if epoch >= 0:
            return AtOffset(epoch, Split.from_json(split))
        case [int(epoch), int(chunks), list(key)] if epoch >= 0 and chunks >= 0 and bool(key) == (chunks > 0):
            if all(isinstance(part, str) and part for part in key):
                return AtKey(epoch, chunks, tuple(key))
        case [int(epoch), int(done), int(of)] if epoch >= 0 and 0 < done < of:
            return InEpoch(epoch, done, of)
    raise RecordInvalid(f"not a position: {value!r}", value=repr(value)[:200])
