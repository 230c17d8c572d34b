"""A commit of a Delta log, reduced to what decisions need.

Counts and sizes, never lists of files: a commit of a million files takes no more memory than one of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.values.document import count, parts, text

_NAMED_AGAIN = ("COMPUTE STATS", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL")
"""Operations that add existing files again, with new statistics or ids, and remove none."""


ROW_BYTES = 100
"""Assumed size of a row in a data file without a row count."""


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Sum over one kind of file action. ``rows`` is None if any file has no count."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    deleted_rows: int = 0
    """Rows that the deletion vectors of these files hide."""

    @property
    def live(self) -> int | None:
        """Rows that a reader gets; None if that is not counted."""
        return None if self.rows is None else self.rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metaData action: the table's identity, schema and properties."""

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
    """The identity of a commit: a table that was restored and grew again has the same versions with other commits."""

    version: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "digest": self.digest}

    @staticmethod
    def from_json(value: Any) -> CommitId:
        """Raises ValueError if ``value`` is no commit id."""
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
    rewritten: str | None = None
    """The path of one file that the table must have had before, if the commit claims to change no row."""
    strays: bool = False
    """Whether the table never had that file: the commit was made for a table that was dropped there."""
    txns: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    metadata: TableMetadata | None = None
    protocol: Protocol | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    """Numeric operation metrics of commitInfo, e.g. ``numOutputRows``."""
    digest: str | None = None
    """Of the commit file; None for a commit that was not read from a file."""
    restored: int | None = None
    """Of a RESTORE: the version that it names. None if it names a time."""

    @property
    def belied(self) -> bool:
        """Whether it claims to change no row, but the row counts of its files differ.

        Without counts, a commit that both adds and removes files passes as a rewrite: some writers keep no counts.
        One that only adds or only removes files does not.
        """
        if self.data_change or not self.rewrites or self.operation in _NAMED_AGAIN:
            return False
        added, removed = self.added.live, self.removed.live
        if added is None or removed is None:
            return not (self.added.files and self.removed.files)
        return added != removed

    @property
    def append_only(self) -> bool:
        """Whether the commit only adds rows."""
        return self.data_change and self.removed.files == 0 and self.changed.files == 0
