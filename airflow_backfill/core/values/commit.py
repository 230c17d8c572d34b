"""A commit of a Delta log, as far as decisions need it.

Counts and sizes, never file lists: a commit of a million files must cost no more memory than one of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.values.document import count, parts, text

_NAMED_AGAIN = ("COMPUTE STATS", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL")
"""Operations that add files of the table once more, with other statistics or ids, and remove none."""


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Sum over one kind of file action. ``rows`` is None as soon as one file carries no count."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    deleted_rows: int = 0
    """Rows that the deletion vectors of these files hide."""

    @property
    def live(self) -> int | None:
        """Rows that are there for whoever reads; None if that is not counted."""
        return None if self.rows is None else self.rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metaData action: what makes a table the same table, and its rows the same shape."""

    table_id: str
    schema_json: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Protocol:
    """The protocol action. Feature names are those of the Delta protocol."""

    reader_version: int
    writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitId:
    """Which commit a version is: two histories of one table have the same numbers, and other commits."""

    version: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "digest": self.digest}

    @staticmethod
    def from_json(value: Any) -> CommitId:
        """ValueError if ``value`` is none."""
        version, digest = parts(value, "version", "digest")
        return CommitId(count(version), text(digest))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit file. Times are milliseconds since 1970 and serve display and retention only."""

    version: int
    timestamp: int = 0
    operation: str = ""
    added: FileTotals = FileTotals()
    removed: FileTotals = FileTotals()
    changed: FileTotals = FileTotals()
    """Change data files (``cdc`` actions)."""
    data_change: bool = False
    """True if any file action changes rows; OPTIMIZE and property changes do not."""
    rewrites: bool = False
    """True if files were added or removed without changing rows (OPTIMIZE, REORG)."""
    txns: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    metadata: TableMetadata | None = None
    protocol: Protocol | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    """The numeric operation metrics of commitInfo, e.g. ``numOutputRows``."""
    digest: str | None = None
    """Of the commit file; None if it was never in a file."""

    @property
    def belied(self) -> bool:
        """Whether it says that it changes no row, and the counts of its files say otherwise.

        Where a file has no count, files that take the place of others are believed: writers that keep no counts
        rewrite tables, too. Files that come or go alone are not.
        """
        if self.data_change or not self.rewrites or self.operation in _NAMED_AGAIN:
            return False
        added, removed = self.added.live, self.removed.live
        if added is None or removed is None:
            return not (self.added.files and self.removed.files)
        return added != removed

    @property
    def append_only(self) -> bool:
        """Whether the commit does nothing to rows but add them."""
        return self.data_change and self.removed.files == 0 and self.changed.files == 0
