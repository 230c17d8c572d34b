"""A Delta log, read from its commit files: no JVM, and the table is never opened."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, SourceNotDelta
from airflow_backfill.core.values.commit import Commit, Protocol, TableMetadata
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.checkpoint import read_checkpoint, read_checksum
from airflow_backfill.ledger.commit_file import DIGESTED_BYTES, Digest, parse_commit
from airflow_backfill.ledger.log_listing import LOG, LogListing, commit_name
from airflow_backfill.ledger.store import NotFound, Store

MAX_POINTER_BYTES = 1 << 20


class DeltaLog:
    """The log of the table at a store's root. No cache: every call reads again.

    A deleted commit raises ``HistoryLost``: log clean-up deletes commits, so a reader may treat it as the log's end. A
    truncated commit raises ``RecordInvalid``: stores show only complete files, so it is damaged. To treat it as
    the log's end would hide older commits.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def head(self) -> int:
        """The newest version; ``SourceNotDelta`` if there is none."""
        return self._head(self._recent()[1])

    def versions(self, after: int) -> list[int]:
        """The versions after ``after`` that have a commit file, ascending. There may be holes."""
        return sorted(self._listing(after + 1).commits)

    def earliest(self) -> int:
        """The oldest version that has a commit file; ``HistoryLost`` if only checkpoints are left."""
        listing = self._listing(0)
        head = self._head(listing)
        if not listing.commits:
            raise HistoryLost(
                f"{self._store.url}: all commit files were deleted, only a checkpoint is left", version=head
            )
        return min(listing.commits)

    def read(self, version: int) -> Commit:
        """The commit of a version. Memory does not grow with the size of its file."""
        return self._commit(version)

    def _commit(self, version: int) -> Commit:
        name = commit_name(version)
        try:
            return parse_commit(version, self._store.chunks(f"{LOG}/{name}"))
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

    def digest(self, version: int) -> str | None:
        """The digest of a version's commit, as in ``read``, by one short read; None if the commit was deleted."""
        digest = Digest()
        try:
            list(digest.passing([self._store.read(f"{LOG}/{commit_name(version)}", DIGESTED_BYTES)]))
        except NotFound:
            return None
        return digest.text

    def newest_first(self, stop: int = 0) -> Iterator[Commit]:
        """The commits from the head down to ``stop``, read lazily.

        Raises ``HistoryLost`` at a deleted commit.
        """
        for version in range(self.head(), stop - 1, -1):
            yield self.read(version)

    def protocol_and_metadata(self) -> tuple[Protocol, TableMetadata]:
        """Both as of the head: from the newest readable checksum or checkpoint, and the commits after it."""
        start, listing = self._recent()
        protocol: Protocol | None = None
        metadata: TableMetadata | None = None
        unread: list[str] = []
        for version in range(self._head(listing), -1, -1):
            if version < start:
                start, listing = 0, self._listing(0)
            summary = self._summary(listing, version, unread)
            if summary is not None:
                return protocol or summary[0], metadata or summary[1]
            try:
                commit = self._commit(version)
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

    def _recent(self) -> tuple[int, LogListing]:
        """The version of the last checkpoint, and the listing from there on; 0 and all if its pointer is not usable."""
        try:
            pointer = actions.decode(self._store.read(f"{LOG}/_last_checkpoint", MAX_POINTER_BYTES))
            start = max(0, actions.integer(pointer.get("version")))
        except (NotFound, Malformed):
            start = 0
        listing = self._listing(start)
        return (0, self._listing(0)) if listing.head is None else (start, listing)

    def _listing(self, start: int) -> LogListing:
        return LogListing.of(self._store.list(LOG, after=f"{start:020}"))

    def _head(self, listing: LogListing) -> int:
        if listing.head is None:
            raise SourceNotDelta(
                f"{self._store.url} is not a Delta table: its _delta_log folder is empty or missing; check the location"
            )
        return listing.head
