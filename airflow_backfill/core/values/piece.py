"""A part of what a build reads of its source: some files of the pinned epoch, or the changes of some epochs.

Files and epochs are numbered, so that pieces can be compared: files in the plan's order, epochs by their versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_backfill.core.values.document import count, parts


class Line(str, Enum):
    """What is numbered."""

    FILES = "files"
    EPOCHS = "epochs"


@dataclass(frozen=True, slots=True)
class Piece:
    """Half-open runs of numbers; if ``of`` > 1, only key bucket ``bucket`` of ``of`` of them."""

    line: Line
    runs: tuple[tuple[int, int], ...]
    bucket: int = 0
    of: int = 1

    def to_json(self) -> dict[str, Any]:
        runs = [list(run) for run in self.runs]
        return {"line": self.line.value, "runs": runs, "bucket": self.bucket, "of": self.of}

    @staticmethod
    def from_json(value: Any) -> Piece:
        """Raises ValueError if ``value`` is no piece."""
        line, runs, bucket, of = parts(value, "line", "runs", "bucket", "of")
        if not isinstance(runs, list) or not all(isinstance(run, list) and len(run) == 2 for run in runs):
            raise ValueError(f"not runs of numbers: {runs!r}")
        found = tuple((count(start), count(stop)) for start, stop in runs)
        if any(start >= stop for start, stop in found) or not 0 <= count(bucket) < count(of, 1):
            raise ValueError(f"not a piece of a source: {value!r}")
        return Piece(Line(line), found, bucket, of)


@dataclass(frozen=True, slots=True)
class Cover:
    """Pieces that do not overlap, and what they leave: together they are the whole, once."""

    chosen: Sequence[Piece]
    missing: Sequence[Piece]


def cover(pieces: Iterable[Piece], line: Line, whole: range) -> Cover:
    """The numbers in ``whole``, from these pieces as far as they go. A piece counts with all its numbers or not at
    all, and the buckets of a number count if all of them are there.
    """
    free = bytearray(b"\1") * len(whole)
    complete, parted = list[tuple[Piece, ...]](), dict[tuple[Any, int], dict[int, Piece]]()
    for piece in pieces:
        if piece.line is line and piece.of == 1:
            complete.append((piece,))
        elif piece.line is line:
            parted.setdefault((piece.runs, piece.of), {})[piece.bucket] = piece
    complete += [tuple(buckets.values()) for (_, of), buckets in parted.items() if len(buckets) == of]
    chosen = list[Piece]()
    for group in complete:
        spans = [range(start - whole.start, stop - whole.start) for start, stop in group[0].runs]
        if all(span.start >= 0 and span.stop <= len(whole) and all(free[span.start : span.stop]) for span in spans):
            for span in spans:
                free[span.start : span.stop] = bytes(len(span))
            chosen += group
    return Cover(chosen, [Piece(line, (run,)) for run in _runs(free, whole.start)])


def _runs(free: bytearray, first: int) -> Iterable[tuple[int, int]]:
    start = free.find(1)
    while start >= 0:
        stop = free.find(0, start)
        stop = len(free) if stop < 0 else stop
        yield first + start, first + stop
        start = free.find(1, stop)
