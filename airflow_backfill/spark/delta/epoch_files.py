"""The file actions in the commits of a range of epochs. They say how many changes a read of these epochs must find.

An incomplete change feed gives no error. So the expected counts are taken from the commits: the files that each commit
added, removed or wrote as change data, and their live rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_backfill.core.errors import HistoryLost, SourceUnavailable
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.ledger.actions import Malformed, decode, is_vector, lines, mapping
from airflow_backfill.ledger.commit_file import Digest
from airflow_backfill.ledger.delta_log import READERS
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import NotFound, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_COPIED = ("numTargetRowsCopied", "numCopiedRows")
_WAY_OUT = (
    "its changes cannot be read; restore it (from a copy, or the store's versions) and clear the task, or plan again "
    "with on_existing='restart'"
)


@dataclass(frozen=True, slots=True)
class FileAction:
    """One file that a commit added, removed or wrote as change data."""

    path: str
    size: int
    rows: int | None
    """Live rows of the file; None if the log does not say."""
    vector: str | None
    """Identity of the file's deletion vector in this commit."""
    data_change: bool
    hidden: int = 0
    """Rows that the deletion vector hides."""


@dataclass(frozen=True, slots=True)
class EpochFiles:
    """The file actions of one commit."""

    epoch: int
    added: tuple[FileAction, ...]
    removed: tuple[FileAction, ...]
    changes: tuple[FileAction, ...]
    no_op: bool
    """A MERGE whose metrics say that it changed no row, although it rewrote files."""
    copied: int | None
    """Rows copied unchanged from removed to added files; None if the commit does not say."""
    reshapes: bool
    """The commit has a metaData action: schema, partitioning or properties may differ from here on."""
    upgrades: bool = False
    """The commit has a protocol action: files may have to be read in another way from here on."""
    digest: str = ""
    """Tells the commit from another one of this epoch."""

    @property
    def data_change(self) -> bool:
        """Whether any row may differ after this commit."""
        return bool(self.changes) or any(f.data_change for f in (*self.added, *self.removed))

    @property
    def only_adds(self) -> bool:
        """Whether the commit only adds rows."""
        return not self.changes and not any(f.data_change for f in self.removed)

    @property
    def rewrites(self) -> bool:
        """Whether files were replaced without a change of rows (OPTIMIZE, REORG)."""
        return any(not f.data_change for f in (*self.added, *self.removed))


def read_epochs(spark: SparkSession, table: str, epochs: EpochRange) -> list[EpochFiles]:
    """The file actions of every commit of ``epochs``. HistoryLost names the first that is gone or damaged."""
    return _of_each(spark, table, epochs, _epoch_files)


def action_lines(
    spark: SparkSession, table: str, epochs: EpochRange, wanted: Mapping[str, Collection[FileAction]]
) -> dict[str, dict[FileAction, str]]:
    """The log lines of the ``wanted`` actions, by kind, without statistics. If the commits have others now,
    SourceUnavailable: the attempt looks at the source again.

    Reads the commits again: only few lines are needed, and keeping all of them would take as much memory as the
    commits.
    """

    def lines_in(_: int, chunks: Iterable[bytes]) -> list[tuple[str, FileAction, str]]:
        actions = ((kind, action) for line in lines(chunks) for kind, action in decode(line).items() if kind in wanted)
        here = ((kind, _file(mapping(action)), action) for kind, action in actions)
        return [(kind, file, json.dumps(action)) for kind, file, action in here if file in wanted[kind]]

    found: dict[str, dict[FileAction, str]] = {kind: {} for kind in wanted}
    for kind, file, line in chain.from_iterable(_of_each(spark, table, epochs, lines_in)):
        found[kind][file] = line
    if any(file not in found[kind] for kind, files in wanted.items() for file in files):
        raise SourceUnavailable(
            f"the commits of epochs {epochs.start} to {epochs.last} of the source name other files than a moment ago: "
            "another table was put in its place, for example from a backup",
            epoch=epochs.last,
        )
    return found


def _of_each(
    spark: SparkSession, table: str, epochs: EpochRange, read: Callable[[int, Iterable[bytes]], _T]
) -> list[_T]:
    """What ``read`` makes of each commit. Many are requested at once, because a store may take 100 ms for each."""
    store = open_store(table, spark=spark)
    with ThreadPoolExecutor(READERS, "epochs") as pool:
        return list(pool.map(lambda epoch: _read(store, epoch, read), epochs))


def _read(store: Store, epoch: int, read: Callable[[int, Iterable[bytes]], _T]) -> _T:
    try:
        return read(epoch, store.chunks(f"{LOG}/{commit_name(epoch)}"))
    except NotFound:
        why = "is no longer in the source's log"
        raise HistoryLost(f"the commit of epoch {epoch} {why}; {_WAY_OUT}", epoch=epoch) from None
    except Malformed as error:
        raise HistoryLost(f"the commit of epoch {epoch} is damaged: {error}; {_WAY_OUT}", epoch=epoch) from None


def _epoch_files(epoch: int, chunks: Iterable[bytes]) -> EpochFiles:
    files: dict[str, list[FileAction]] = {"add": [], "remove": [], "cdc": []}
    empty, no_op, reshapes, upgrades = True, False, False, False
    copied, digest = None, Digest()
    for line in lines(digest.passing(chunks)):
        empty = False
        for kind, action in decode(line).items():
            if kind in files:
                if not is_vector(mapping(action).get("path")):
                    files[kind].append(_file(action))
            elif kind == "commitInfo":
                metrics = mapping(action).get("operationMetrics") or {}
                no_op = action.get("operation") == "MERGE" and all(metrics.get(m) == "0" for m in _CHANGED)
                copied = next((int(metrics[m]) for m in _COPIED if m in metrics), None)
            elif kind == "metaData":
                reshapes = True
            elif kind == "protocol":
                upgrades = True
    if empty:
        raise Malformed("it is empty")
    added, removed, changes = (tuple(files[kind]) for kind in ("add", "remove", "cdc"))
    return EpochFiles(epoch, added, removed, changes, no_op, copied, reshapes, upgrades, digest.text)


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
        hidden=hidden,
    )
