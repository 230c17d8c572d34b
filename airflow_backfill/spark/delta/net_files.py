"""What a range of epochs comes to in files: which are gone, which are new, which only hide other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill.spark.delta.epoch_files import EpochFiles, FileAction


@dataclass(frozen=True, slots=True)
class NetFiles:
    """Files that differ between the two ends. A file in ``masked`` is at both, with another deletion vector."""

    added: tuple[FileAction, ...]
    removed: tuple[FileAction, ...]
    masked: tuple[tuple[FileAction, FileAction], ...]
    """Before and after."""


def net_files(epochs: Sequence[EpochFiles]) -> NetFiles:
    """The difference of the ends, from the actions between them. A file that came and went is not in it.

    Within a commit a removed file goes before it comes back: that is how a deletion vector is replaced.
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
