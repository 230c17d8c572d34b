"""The rows of a table at a version, computed only from its first rows and the writer's journal.

An independent check of a backfill: plain Python, no Spark, no Delta, no code of the product. Rows are streamed; memory
holds the rows that the journal changed, and a digest of each row that is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from demo.journal import Entry, Key, Row

Transform = Callable[[Row], Row | None]
"""From a row of the source to a row of the target; None if ``where`` filters it out."""


def fold(initial: Iterable[Row], entries: Iterable[Entry], table: str, key: Sequence[str], upto: int) -> Iterator[Row]:
    """The rows of ``table`` at version ``upto``, in no particular order.

    ``initial`` are its rows before the first entry, unique by ``key``. Raises ValueError if an entry with an unknown
    outcome may be at or before ``upto``.
    """
    latest = _latest(entries, table, key, upto)
    for row in initial:
        if _key(row, key) not in latest:
            yield row
    for changed in latest.values():
        if changed is not None:
            yield changed


@dataclass(frozen=True, slots=True)
class Difference:
    """All keys whose actual rows are wrong."""

    expected: int = 0
    """Number of expected rows."""
    missing: list[Key] = field(default_factory=list)
    extra: list[Key] = field(default_factory=list)
    stale: list[Key] = field(default_factory=list)
    """Keys with other values than expected."""
    duplicate: list[Key] = field(default_factory=list)
    """Keys with several rows, once for each surplus row."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.stale or self.duplicate)

    def __str__(self) -> str:
        if self.equal:
            return f"equal, {self.expected} rows"
        names = ("missing", "extra", "stale", "duplicate")
        found = [(name, keys) for name in names if (keys := getattr(self, name))]
        return ", ".join(f"{len(keys)} {name} (e.g. {sorted(keys)[:3]})" for name, keys in found)


def compare(
    expected: Iterable[Row], actual: Iterable[Row], key: Sequence[str], transform: Transform | None = None
) -> Difference:
    """The difference between ``actual`` and ``transform`` of ``expected``. ``key`` names columns of the target.

    Types count: 1.5, 1.50 and "1.50" are different values.
    """
    difference = Difference()
    found: dict[Key, bytes] = {}
    for row in actual:
        at = _key(row, key)
        if at in found:
            difference.duplicate.append(at)
        found[at] = _digest(row)
    rows = 0
    for row in expected:
        wanted = transform(row) if transform else row
        if wanted is None:
            continue
        rows += 1
        at = _key(wanted, key)
        digest = found.pop(at, None)
        if digest is None:
            difference.missing.append(at)
        elif digest != _digest(wanted):
            difference.stale.append(at)
    difference.extra.extend(found)
    return Difference(rows, difference.missing, difference.extra, difference.stale, difference.duplicate)


def _latest(entries: Iterable[Entry], table: str, key: Sequence[str], upto: int) -> dict[Key, Row | None]:
    by_version: dict[int, Entry] = {}
    for entry in entries:
        if entry.operation.table != table:
            continue
        if entry.outcome == "unknown" and entry.after < upto:
            raise ValueError(
                f"the outcome of operation {entry.number} is unknown: it may be in version {upto} of {table}; call "
                "resolved() first"
            )
        if entry.version is not None and entry.version <= upto:
            if entry.version in by_version:
                raise ValueError(
                    f"version {entry.version} of {table} has two operations of the journal: the journal is not of "
                    "this table"
                )
            by_version[entry.version] = entry
    latest: dict[Key, Row | None] = {}
    for _, entry in sorted(by_version.items()):
        latest.update(dict.fromkeys(entry.operation.deletes))
        latest.update((_key(row, key), row) for row in entry.operation.upserts)
    return latest


def _key(row: Row, columns: Sequence[str]) -> Key:
    return tuple(row[column] for column in columns)


def _digest(row: Row) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=16).digest()
