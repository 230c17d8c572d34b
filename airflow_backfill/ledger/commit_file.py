"""Parses a commit file into a ``Commit``: one pass, one line in memory at a time, only counts are kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed

_COUNT_FIRST = re.compile(r'\s*\{\s*"numRecords"\s*:\s*([0-9]{1,18})\s*[,}]')
_NUMBER = re.compile(r"-?[0-9]{1,18}")

DIGESTED_BYTES = 1 << 20
"""How much of a commit file its digest covers. This is enough to tell commits apart, because names of data files are
random, and the digest takes one short read.
"""


def parse_commit(version: int, chunks: Iterable[bytes], *, counted: bool = True) -> Commit:
    """The commit in the bytes of a file; ``Malformed``, with the line, if they are truncated or not a commit.

    A file that was truncated exactly between two lines is not detected. Without ``counted``, a commit with a
    transaction id is read up to its first changed file only, because Delta writes files last: the totals of files and
    the digest are not those of the whole, all else is.
    """
    reading, digest = _Reading(), Digest()
    number = 0
    for number, line in enumerate(actions.lines(digest.passing(chunks)), start=1):
        try:
            reading.take(actions.decode(line))
        except Malformed as error:
            raise Malformed(f"line {number}: {error}") from error
        if not counted and reading.data_change and reading.txns and reading.info:
            break
    if not number:
        raise Malformed("the file is empty")
    return reading.commit(version, digest.text)


def timestamp_in(start: bytes) -> int | None:
    """The time of the commit that begins with these bytes; None if they do not have it whole."""
    line, whole, _ = start.partition(b"\n")
    try:
        info = actions.decode(line).get("commitInfo") if whole else None
    except Malformed:
        return None
    return _timestamp(info) if isinstance(info, dict) else None


class Digest:
    """A digest of the first ``DIGESTED_BYTES`` of a commit file, computed while its chunks are read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._left = DIGESTED_BYTES

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._hash.update(chunk[: self._left])
            self._left -= min(self._left, len(chunk))
            yield chunk

    @property
    def text(self) -> str:
        return self._hash.hexdigest()[:32]


@dataclass(slots=True)
class _Tally:
    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    deleted_rows: int = 0

    def count(self, action: dict[str, Any]) -> None:
        self.files += 1
        self.bytes += actions.integer(action.get("size") or 0)
        rows = _row_count(action.get("stats"))
        self.rows = None if rows is None or self.rows is None else self.rows + rows
        vector = action.get("deletionVector")
        if vector is not None:
            self.deleted_rows += actions.integer(actions.mapping(vector).get("cardinality"))

    def total(self) -> FileTotals:
        return FileTotals(self.files, self.bytes, self.rows, self.deleted_rows)


@dataclass(slots=True)
class _Reading:
    added: _Tally = field(default_factory=_Tally)
    removed: _Tally = field(default_factory=_Tally)
    changed: _Tally = field(default_factory=_Tally)
    data_change: bool = False
    rewrites: bool = False
    paths: dict[str, str] = field(default_factory=dict)
    """Of the last added, and of the last removed file."""
    txns: dict[str, int] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    metadata: TableMetadata | None = None
    protocol: Protocol | None = None

    def _count(self, name: str, action: dict[str, Any]) -> None:
        if actions.is_vector(action.get("path")):
            return
        (self.added if name == "add" else self.removed).count(action)
        self.paths[name] = str(action.get("path"))
        # Only an explicit "false" means that no row changes.
        if action.get("dataChange") is False:
            self.rewrites = True
        else:
            self.data_change = True

    def take(self, line: dict[str, Any]) -> None:
        for name, value in line.items():
            if value is None:
                continue
            if name in ("add", "remove"):
                self._count(name, actions.mapping(value))
            elif name == "cdc":
                # cdc actions always have dataChange=false, and exist only if rows changed.
                self.changed.count(actions.mapping(value))
                self.data_change = True
            elif name == "txn":
                action = actions.mapping(value)
                app = actions.of("appId", actions.text, action)
                self.txns[app] = actions.of("version", actions.integer, action)
            elif name == "commitInfo":
                self.info = actions.mapping(value)
            elif name == "metaData":
                self.metadata = actions.metadata(value)
            elif name == "protocol":
                self.protocol = actions.protocol(value)

    def commit(self, version: int, digest: str) -> Commit:
        user_metadata = self.info.get("userMetadata")
        return Commit(
            version=version,
            timestamp=_timestamp(self.info) or 0,
            operation=str(self.info.get("operation") or ""),
            added=self.added.total(),
            removed=self.removed.total(),
            changed=self.changed.total(),
            data_change=self.data_change,
            rewrites=self.rewrites,
            rewritten=None if self.data_change else self.paths.get("remove", self.paths.get("add")),
            txns=self.txns,
            user_metadata=user_metadata if isinstance(user_metadata, str) else None,
            metadata=self.metadata,
            protocol=self.protocol,
            metrics=_numbers(self.info.get("operationMetrics")),
            digest=digest,
            restored=_restored(self.info),
        )


def _restored(info: Mapping[str, Any]) -> int | None:
    parameters = info.get("operationParameters")
    if info.get("operation") != "RESTORE" or not isinstance(parameters, dict):
        return None
    version = str(parameters.get("version"))
    return int(version) if version.isdecimal() else None


def _timestamp(info: Mapping[str, Any]) -> int | None:
    timestamp = info.get("inCommitTimestamp") or info.get("timestamp")
    return timestamp if type(timestamp) is int else None


def _row_count(stats: object) -> int | None:
    """``numRecords`` of a file's statistics. These are JSON in a string, and most of a commit's bytes."""
    if not isinstance(stats, str):
        return None
    if match := _COUNT_FIRST.match(stats):
        return int(match[1])
    count = actions.decode(stats).get("numRecords")
    return None if count is None else actions.integer(count)


def _numbers(metrics: object) -> dict[str, int]:
    """The whole numbers among the metrics, which Spark writes as strings."""
    if not isinstance(metrics, dict):
        return {}
    return {name: int(value) for name, value in metrics.items() if _NUMBER.fullmatch(str(value))}
