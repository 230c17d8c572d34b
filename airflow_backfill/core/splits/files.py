"""Splits as groups of the pinned snapshot's data files, for a build that reads one version of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.splits.splits import Splits, rows_of


@dataclass(frozen=True, slots=True)
class AtFile(Position):
    """The first ``files`` files of the split are in the target."""

    files: int

    @property
    def rank(self) -> tuple[int, ...]:
        return (-1, 0, self.files)

    @property
    def newest_epoch(self) -> None:
        return None

    @property
    def begun(self) -> bool:
        return self.files > 0

    @property
    def read(self) -> bool:
        return False

    def may_become(self, after: Position) -> bool:
        return isinstance(after, (AtFile, Consumed))

    def to_json(self) -> dict[str, Any]:
        return {"files": self.files}

    @staticmethod
    def from_json(value: dict[str, Any]) -> AtFile | None:
        match value:
            case {"files": int(files), **more} if not more and files >= 0:
                return AtFile(files)
        return None


@dataclass(frozen=True, slots=True)
class FileSplits(Splits):
    """The pinned snapshot's data files, sorted by path, cut into splits.

    Split i is the files ``borders[i] <= n < borders[i + 1]``; a snapshot without files is one empty split.
    ``digest`` is the fingerprint of paths and sizes: an attempt that lists the files again must get the same one.
    """

    borders: tuple[int, ...]
    bytes: int
    rows: int | None
    digest: str
    split_rows: tuple[int, ...] | None = None
    """The rows of each split; None if a file has no row count, and in plans of older versions."""

    @property
    def files(self) -> int:
        return self.borders[-1]

    def __len__(self) -> int:
        return len(self.borders) - 1

    @property
    def data_files(self) -> int:
        return self.files

    @property
    def sound(self) -> bool:
        borders = self.borders
        return (
            isinstance(self.digest, str)
            and all(type(border) is int and border >= 0 for border in borders)
            and len(borders) >= 2
            and borders[0] == 0
            and (borders == (0, 0) or all(a < b for a, b in pairwise(borders)))
            and (self.split_rows is None or self._adds_up(self.split_rows))
        )

    def _adds_up(self, rows: tuple[int, ...]) -> bool:
        counts = all(type(count) is int and count >= 0 for count in rows)
        return counts and len(rows) == len(self) and sum(rows) == self.rows

    def first(self, epoch: int) -> tuple[Position, ...]:
        return (AtFile(0),) * len(self)

    def size(self, split: int) -> int:
        """The number of files of a split."""
        return self.borders[split + 1] - self.borders[split]

    def share(self, split: int, position: Position) -> float:
        if isinstance(position, AtFile):
            return position.files / max(self.size(split), 1)
        return Splits.share(self, split, position)

    def counts(self, split: int, position: Position) -> Mapping[str, int]:
        done = position.files if isinstance(position, AtFile) else self.size(split)
        files = {"files read": done, "files left": self.size(split) - done}
        if self.split_rows is None:
            return files
        # Files differ in rows, so of a split that is being read nothing tells how many of its rows are.
        return files | {rows_of(position): self.split_rows[split]}

    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        for split, position in enumerate(positions):
            files = self.size(split)
            if position != Consumed(epoch) and not (isinstance(position, AtFile) and position.files < max(files, 1)):
                raise RecordInvalid(
                    f"split {split} of {files} files cannot stand at {position} while epoch {epoch} is read",
                    split=split,
                )

    def objection(self, split: int, before: Position, after: Position, epoch: int) -> str | None:
        if before.newest_epoch is not None:
            return None
        if isinstance(after, AtFile) and after != before and after.files >= self.size(split):
            return f"split {split} has no file {after.files}"
        if after.complete is not None and after.complete != epoch:
            return f"split {split} was read at epoch {after.complete}, which is not the pinned one"
        return None

    def to_json(self) -> dict[str, Any]:
        rows = {} if self.split_rows is None else {"split_rows": list(self.split_rows)}
        return {"borders": list(self.borders), "bytes": self.bytes, "rows": self.rows, "digest": self.digest, **rows}

    @staticmethod
    def from_json(value: dict[str, Any]) -> FileSplits | None:
        if "borders" not in value:
            return None
        rows = tuple(value["split_rows"]) if "split_rows" in value else None
        return FileSplits(tuple(value["borders"]), value["bytes"], value["rows"], value["digest"], rows)

    @staticmethod
    def digest_of(files: Iterable[tuple[str, int]]) -> str:
        """The fingerprint of files, given as path and size in the plan's order."""
        digest = hashlib.sha256()
        for path, size in files:
            digest.update(f"{len(path.encode())}:{path}:{size};".encode())
        return digest.hexdigest()[:32]

    @staticmethod
    def cut(sizes: Sequence[int], splits: int) -> tuple[int, ...]:
        """Borders of at most ``splits`` runs of files, of about equal bytes; no run is empty unless all are."""
        total, done, borders = sum(sizes), 0, [0]
        for n, size in enumerate(sizes):
            done += size
            wanted = len(borders) * total / splits
            if done >= wanted and n + 1 < len(sizes) and len(borders) < splits:
                borders.append(n + 1)
        borders.append(len(sizes))
        return tuple(borders)
