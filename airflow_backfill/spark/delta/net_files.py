"""The net difference of a range of epochs in files: added, removed, and files with another deletion vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill.spark.delta.epoch_files import EpochFiles, FileAction


@dataclass(frozen=True, slots=True)
class NetFiles:
    """Files that differ between the two ends. A ``masked`` file is at both, with different deletion vectors."""

    added: tuple[FileAction, ...]
    removed: tuple[FileAction, ...]
    masked: tuple[tuple[FileAction, FileAction], ...]
    """Before and after."""

    @property
    def moved(self) -> bool:
        """Whether rows may only have moved from a removed file to an added one."""
        return bool(self.added and self.removed)

    @property
    def surely_removed(self) -> bool:
        """Whether some files hold only rows that are gone, so that their keys suffice."""
        return bool(self.masked or (self.removed and not self.added))


def net_files(epochs: Sequence[EpochFiles]) -> NetFiles:
    """The difference of the ends, from the actions between them. A file that was added and removed again is left out.

    A commit that removes and adds the same file replaces its deletion vector, so removals are processed first.
    """
    before: dict[str, FileAction | None] = {}
    after: dict[str, FileAction | None] = {}
    for epoch in epochs:
        for file in epoch.removed:
            if file.data_change:
                before.setdefault(file.path, file)
                after[file.path] = None
        for file in epoch.added:
            if file.data_change:
                before.setdefault(file.path, None)
                after[file.path] = file
    added, removed, masked = [], [], []
    for path, old in before.items():
        new = after[path]
        if old is None and new is not None:
            added.append(new)
        elif old is not None and new is None:
            removed.append(old)
        elif old is not None and new is not None and old.vector != new.vector:
            masked.append((old, new))
    return NetFiles(tuple(added), tuple(removed), tuple(masked))
