"""What the commits of a range of epochs did to files: the ground truth for what their changes must be.

A change feed that comes up short gives no error, so what is expected is taken from here: which files each commit
added, removed or wrote as change data, and how many rows live in them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.ledger.actions import Malformed, decode, lines, mapping
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import NotFound, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_COPIED = ("numTargetRowsCopied", "numCopiedRows")


@dataclass(frozen=True, slots=True)
class FileAction:
    """One file that a commit added, removed or wrote as change data."""

    path: str
    size: int
    rows: int | None
    """Rows that are alive in it; None if the log does not say."""
    vector: str | None
    """Identity of the deletion vector the file has here."""
    data_change: bool


@dataclass(frozen=True, slots=True)
class EpochFiles:
    """The file actions of one commit."""

    epoch: int
    added: tuple[FileAction, ...]
    removed: tuple[FileAction, ...]
    changes: tuple[FileAction, ...]
    no_op: bool
    """A MERGE that says of itself that it changed no row, although it rewrote files."""
    copied: int | None
    """Rows of removed files that stand unchanged in added ones; None if the commit does not say."""
    reshapes: bool
    """The commit carries a metaData action: schema, partitioning or properties may differ from here on."""

    @property
    def data_change(self) -> bool:
        """Whether any row may differ after this commit."""
        return bool(self.changes) or any(f.data_change for f in (*self.added, *self.removed))

    @property
    def only_adds(self) -> bool:
        """Whether the commit does nothing to rows but add files of them."""
        return not self.changes and not any(f.data_change for f in self.removed)

    @property
    def rewrites(self) -> bool:
        """Whether files were replaced without changing rows (OPTIMIZE, REORG)."""
        return any(not f.data_change for f in (*self.added, *self.removed))


def read_epochs(spark: SparkSession, table: str, epochs: EpochRange) -> list[EpochFiles]:
    """The commits of ``epochs``, every one of them: HistoryLost names the first that is gone or damaged."""
    store = open_store(table, spark=spark)
    return [_read(store, epoch) for epoch in range(epochs.start, epochs.stop)]


def action_lines(
    spark: SparkSession, table: str, epochs: EpochRange, wanted: Mapping[str, Collection[FileAction]]
) -> dict[str, dict[FileAction, str]]:
    """Of the actions ``wanted``, by kind, the lines of the log, without statistics.

    They are read once more, when it is known which few are needed: to keep all of them would take as much memory as the
    commits are long.
    """
    store = open_store(table, spark=spark)
    found: dict[str, dict[FileAction, str]] = {kind: {} for kind in wanted}
    for epoch in epochs:
        with _lost_if_unreadable(epoch):
            for line in lines(store.chunks(f"{LOG}/{commit_name(epoch)}")):
                for kind, action in decode(line).items():
                    file = _file(mapping(action)) if kind in wanted else None
                    if file is not None and file in wanted[kind]:
                        found[kind][file] = json.dumps(action)
    return found


def _read(store: Store, epoch: int) -> EpochFiles:
    with _lost_if_unreadable(epoch):
        return _epoch_files(epoch, store.chunks(f"{LOG}/{commit_name(epoch)}"))


@contextmanager
def _lost_if_unreadable(epoch: int) -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise HistoryLost(f"the commit of epoch {epoch} is no longer in the log", epoch=epoch) from None
    except Malformed as error:
        raise HistoryLost(f"the commit of epoch {epoch} cannot be read: {error}", epoch=epoch) from None


def _epoch_files(epoch: int, chunks: Iterable[bytes]) -> EpochFiles:
    files: dict[str, list[FileAction]] = {"add": [], "remove": [], "cdc": []}
    empty, no_op, reshapes = True, False, False
    copied = None
    for line in lines(chunks):
        empty = False
        for kind, action in decode(line).items():
            if kind in files:
                files[kind].append(_file(mapping(action)))
            elif kind == "commitInfo":
                metrics = mapping(action).get("operationMetrics") or {}
                no_op = action.get("operation") == "MERGE" and all(metrics.get(m) == "0" for m in _CHANGED)
                copied = next((int(metrics[m]) for m in _COPIED if m in metrics), None)
            elif kind == "metaData":
                reshapes = True
    if empty:
        raise Malformed("it is empty")
    added, removed, changes = (tuple(files[kind]) for kind in ("add", "remove", "cdc"))
    return EpochFiles(epoch, added, removed, changes, no_op, copied, reshapes)


def _file(action: dict[str, Any]) -> FileAction:
    statistics = json.loads(action.pop("stats", None) or "{}")
    records = statistics.get("numRecords")
    vector = action.get("deletionVector")
    hidden = vector["cardinality"] if vector else 0
    return FileAction(
        path=action["path"],
        size=action.get("size") or 0,
        rows=None if records is None else records - hidden,
        vector=f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else None,
        data_change=action.get("dataChange", True),
    )
