"""A Delta log, read from its commit files: no JVM, and the table is never opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote, urlsplit

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, SourceNotDelta
from airflow_backfill.core.values.commit import Commit, Protocol, TableMetadata
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.checkpoint import read_checkpoint, read_checksum
from airflow_backfill.ledger.commit_file import DIGESTED_BYTES, Digest, parse_commit, timestamp_in
from airflow_backfill.ledger.log_listing import LOG, LogListing, commit_name
from airflow_backfill.ledger.store import NotFound, Store

MAX_POINTER_BYTES = 1 << 20
MARK_BYTES = 1 << 12
START_BYTES = 1 << 16
READERS = 32
"""Commits that are read side by side: most of the time of a read is the way to the store."""
FEW = 3
"""Fewer commits than these are read one after the other: threads cost more than they save."""
BATCH = 4 * READERS
"""Commits that are read ahead."""
SEARCHED = 10_000
"""Newest commits in which a file is searched."""
_ADD, _REMOVE = b'{"add"', b'{"remove"'
_OF_FILES = (_ADD, _REMOVE)
YOUNG = 1_000
"""Versions of a table among which a commit for a dropped one may be: it lands soon after the restart."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of a table, with protocol and metadata as of it."""

    version: int
    mark: bytes | None
    """The start of its commit, which tells it from another commit of this version; None if it was deleted."""
    protocol: Protocol
    metadata: TableMetadata


class DeltaLog:
    """The log of the table at a store's root. Remembers the head, and protocol and metadata of it: a look costs one
    listing of what is new. What it remembers holds only as long as the same commit is there.

    A deleted commit raises ``HistoryLost``: log clean-up deletes commits, so a reader may treat it as the log's end. A
    truncated commit raises ``RecordInvalid``: stores show only complete files, so it is damaged. To treat it as
    the log's end would hide older commits.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.known: int | None = None
        """The head at the last look."""
        self._newest: Newest | None = None

    def head(self) -> int:
        """The newest version; ``SourceNotDelta`` if there is none."""
        return self._look()[0]

    def _look(self) -> tuple[int, LogListing]:
        """The head, and a listing from the known head on. A version that is missing before it is a deleted one."""
        listing = None if self.known is None else self._listing(self.known)
        if listing is None or self.known not in listing.commits:
            # At first, or because of clean-up, a restore, or another table.
            listing = self._recent()
        self.known = self._head(listing)
        return self.known, listing

    def versions(self, after: int) -> list[int]:
        """The versions after ``after`` that have a commit file, ascending. There may be holes."""
        return sorted(self._listing(after + 1).commits)

    def read(self, version: int) -> Commit:
        """The commit of a version. Memory does not grow with the size of its file."""
        return self._commit(version)

    def _commit(self, version: int, *, counted: bool = True) -> Commit:
        name = commit_name(version)
        try:
            return parse_commit(version, self._store.chunks(f"{LOG}/{name}"), counted=counted)
        except NotFound as error:
            raise HistoryLost(
                f"{self._store.url}: the commit of version {version} was deleted",
                version=version,
                file=name,
            ) from error
        except Malformed as error:
            raise RecordInvalid(
                f"{self._store.url}: the commit of version {version} is damaged: {error}; restore {name} from a copy",
                version=version,
                file=name,
            ) from error

    def read_each(self, versions: Sequence[int]) -> Iterator[Commit | None]:
        """The commits of these versions, in order; None for a deleted one. Reads a few side by side, ahead of need."""
        if len(versions) < FEW:
            yield from map(self._commit_or_none, versions)
            return
        with ThreadPoolExecutor(READERS, "commits") as pool:
            for start in range(0, len(versions), BATCH):
                yield from pool.map(self._commit_or_none, versions[start : start + BATCH])

    def _commit_or_none(self, version: int) -> Commit | None:
        try:
            return self.read(version)
        except HistoryLost:
            return None

    def committed_at(self, version: int) -> int | None:
        """When a version was committed, milliseconds since 1970, by one short read; None if its commit was deleted."""
        start = self._start(version, START_BYTES)
        if start is None:
            return None
        at = timestamp_in(start)
        return self.read(version).timestamp if at is None else at

    def digest(self, version: int) -> str | None:
        """The digest of a version's commit, as in ``read``, by one short read; None if the commit was deleted."""
        start = self._start(version, DIGESTED_BYTES)
        if start is None:
            return None
        digest = Digest()
        list(digest.passing([start]))
        return digest.text

    def _start(self, version: int, limit: int) -> bytes | None:
        try:
            return self._store.read(f"{LOG}/{commit_name(version)}", limit)
        except NotFound:
            return None

    def _mark(self, version: int) -> bytes | None:
        return self._start(version, MARK_BYTES)

    def first_adding(self, file: str) -> int | None:
        """The first of the newest ``SEARCHED`` versions that adds a data file of this name; None if none does."""
        return next(self._naming(_ADD, file, self._searched()), None)

    def first_lost(self, file: str) -> int | None:
        """``first_adding``, or an older version that adds another file which is gone and which the newest one needs:
        after a RESTORE to a version with that file, the next round would fail.
        """
        first, versions = self.first_adding(file), self._searched()
        if first is None:
            return None
        added: dict[str, int] = {}
        with ThreadPoolExecutor(READERS, "commits") as pool:
            for start in range(0, len(versions), BATCH):
                some = versions[start : start + BATCH]
                for version, (adds, removes) in zip(some, pool.map(self._files_in, some), strict=True):
                    for path in removes - adds:
                        added.pop(path, None)
                    for path in adds:
                        added.setdefault(path, version)
        older = {path: version for path, version in added.items() if version < first}
        there = {folder: set(self._store.list(folder)) for folder in {path.rpartition("/")[0] for path in older}}
        places = ((path.rpartition("/"), version) for path, version in older.items())
        lost = (version for (folder, _, name), version in places if name not in there[folder])
        return min(lost, default=first)

    def _files_in(self, version: int) -> tuple[set[str], set[str]]:
        """The data files that a commit adds, and those that it removes, in folders of the table; none if the commit
        cannot be read.
        """
        found: dict[str, set[str]] = {"add": set(), "remove": set()}
        try:
            for line in actions.lines(self._store.chunks(f"{LOG}/{commit_name(version)}")):
                for action, value in actions.decode(line).items() if line.lstrip().startswith(_OF_FILES) else ():
                    found[action].add(unquote(actions.of("path", actions.text, actions.mapping(value))))
        except (NotFound, Malformed):
            pass
        ours = [{path for path in paths if not urlsplit(path).scheme and path[:1] != "/"} for paths in found.values()]
        return ours[0], ours[1]

    def dropped(self, file: str) -> bool:
        """Whether the newest version no longer has the data file of this name, by the newest ``SEARCHED`` commits."""
        versions = self._searched()
        removed = next(self._naming(_REMOVE, file, versions[::-1]), None)
        return removed is not None and next(self._naming(_ADD, file, range(removed, versions.stop)), None) is None

    def _searched(self) -> range:
        head = self.head()
        return range(max(head - SEARCHED + 1, 0), head + 1)

    def had(self, file: str, version: int) -> bool:
        """Whether a commit before ``version`` adds a data file of this name. True, too, if some of them are deleted, or
        if they are more than ``YOUNG``.
        """
        if version > YOUNG or next(self._naming(_ADD, file, range(version - 1, -1, -1)), None) is not None:
            return True
        return len([known for known in self.versions(-1) if known < version]) < version

    def _naming(self, action: bytes, file: str, versions: Sequence[int]) -> Iterator[int]:
        """Those of the versions that have such an action of a data file of this name, in order."""
        with ThreadPoolExecutor(READERS, "commits") as pool:
            for start in range(0, len(versions), BATCH):
                some = versions[start : start + BATCH]
                found = pool.map(partial(self._names, action, file.encode()), some)
                yield from (version for version, names in zip(some, found, strict=True) if names)

    def _names(self, action: bytes, file: bytes, version: int) -> bool:
        try:
            lines = actions.lines(self._store.chunks(f"{LOG}/{commit_name(version)}"))
            return any(line.lstrip().startswith(action) and file in line for line in lines)
        except (NotFound, Malformed):
            return False

    def newest_first(self, stop: int = 0) -> Iterator[Commit]:
        """The commits from the head down to ``stop``, read lazily.

        Raises ``HistoryLost`` at a deleted commit.
        """
        for version in range(self.head(), stop - 1, -1):
            yield self.read(version)

    def protocol_and_metadata(self) -> tuple[Protocol, TableMetadata]:
        """Both as of the head: from the newest readable checksum or checkpoint, and the commits after it."""
        newest = self.newest()
        return newest.protocol, newest.metadata

    def metadata_at(self, version: int) -> TableMetadata:
        """The metadata as of a version: from its checksum, else from what is before it. ``HistoryLost`` if that is
        deleted.
        """
        return self._read_table(version, self._recent())[1]

    def newest(self, *, marked: bool = True) -> Newest:
        """The head with protocol and metadata, by a listing and a short read while no commit is added. Unless
        ``marked``, a later look takes as long as the first.
        """
        head, listing = self._look()
        mark = self._mark(head) if marked else None
        if self._newest is None or mark is None or (self._newest.version, self._newest.mark) != (head, mark):
            self._newest = Newest(head, mark, *self._read_table(head, listing))
        return self._newest

    def _read_table(self, head: int, listing: LogListing) -> tuple[Protocol, TableMetadata]:
        protocol: Protocol | None = None
        metadata: TableMetadata | None = None
        unread: list[str] = []
        for version in range(head, -1, -1):
            if version < listing.start:
                recent = self._recent()
                listing = recent if recent.start <= version else self._listing(0)
            summary = self._summary(listing, version, unread)
            if summary is not None:
                return protocol or summary[0], metadata or summary[1]
            try:
                commit = self._commit(version, counted=False)
            except HistoryLost as error:
                raise HistoryLost("; ".join((error.message, *unread)), **error.data) from error
            protocol = protocol or commit.protocol
            metadata = metadata or commit.metadata
            if protocol and metadata:
                return protocol, metadata
        raise RecordInvalid(
            f"{self._store.url}: version 0 lacks protocol or metadata: the log is damaged; restore it from a copy",
            version=0,
        )

    def _summary(self, listing: LogListing, version: int, unread: list[str]) -> tuple[Protocol, TableMetadata] | None:
        known = self._newest
        if known is not None and known.version == version and known.mark is not None:
            if known.mark == self._mark(version):
                return known.protocol, known.metadata
        if version in listing.checksums:
            try:
                return read_checksum(self._store, version)
            except (Malformed, NotFound) as error:
                unread.append(f"checksum of version {version}: {error}")
        if version in listing.checkpoints:
            try:
                return read_checkpoint(self._store, listing.checkpoints[version])
            except (Malformed, NotFound) as error:
                unread.append(f"checkpoint of version {version}: {error}")
        return None

    def _recent(self) -> LogListing:
        """The listing from the last checkpoint on; all of the log if the pointer to it is not usable."""
        try:
            pointer = actions.decode(self._store.read(f"{LOG}/_last_checkpoint", MAX_POINTER_BYTES))
            listing = self._listing(max(0, actions.integer(pointer.get("version"))))
        except (NotFound, Malformed):
            return self._listing(0)
        return self._listing(0) if listing.head is None else listing

    def _listing(self, start: int) -> LogListing:
        return LogListing.of(self._store.list(LOG, after=f"{start:020}"), start)

    def _head(self, listing: LogListing) -> int:
        if listing.head is None:
            raise SourceNotDelta(
                f"{self._store.url} is not a Delta table: its _delta_log folder is empty or missing; check the location"
            )
        return listing.head
