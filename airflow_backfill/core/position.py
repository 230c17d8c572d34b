"""Positions: how far a split is.

A position carries only what its variant owns. Positions of one split are totally ordered and only ever grow
(seed 003, the order of ``update_progress``). ``AtFile(n)`` means that n files of the split are in the target;
``Consumed(e)`` that the split stands at epoch e; ``InEpoch`` that it stands at e - 1 or an earlier epoch and
the first ``done`` of ``of`` key buckets of the epochs up to e are in the target, which is not yet a claim of
e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import PositionRegressed, RecordInvalid


@dataclass(frozen=True, slots=True)
class AtFile:
    files: int


@dataclass(frozen=True, slots=True)
class InEpoch:
    epoch: int
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Consumed:
    epoch: int


Position = AtFile | InEpoch | Consumed


def rank(position: Position) -> tuple[int, int, int]:
    """The place of a position in the order of its split. Two positions with one rank are the same progress."""
    match position:
        case AtFile(files):
            return (-1, 0, files)
        case InEpoch(epoch, done, _):
            return (epoch, 0, done)
        case Consumed(epoch):
            return (epoch, 1, 0)


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
        case AtFile(), InEpoch():
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
        case [int(epoch), int(done), int(of)] if epoch >= 0 and 0 < done < of:
            return InEpoch(epoch, done, of)
    raise RecordInvalid(f"not a position: {value!r}", value=repr(value)[:200])
