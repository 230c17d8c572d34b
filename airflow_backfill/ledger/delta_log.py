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
    """The log of the table at a store's root. Remembers nothing: every answer is read anew.

    A commit that is gone is ``HistoryLost``: logs are cleaned up, and a reader may take it for their end. One
    that is there but cannot be read to its end is ``RecordInvalid``: stores show commits whole, so it is no
    half-written one that waiting would mend, and taking it for the end would hide what lies below.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def head(self) -> int:
        """The newest version; ``SourceNotDelta`` if there is none."""
        return self._head(self._recent()[1])

    def versions(self, after: int) -> list[int]:
        """The versions above ``after`` whose commits are there, ascending. Holes are not filled or judged."""
        return sorted(self._listing(after + 1).commits)

    def earliest(self) -> int:
        """The oldest version whose commit is still there; ``HistoryLost`` if only checkpoints are left."""
        listing = self._listing(0)
        head = self._head(listing)
        if not listing.commits:
            raise HistoryLost(f"{self._store.url}: no commit is left", version=head)
        return min(listing.commits)

    def read(self, version: int) -> Commit:
        """The commit of a version, in memory that does not grow with its file."""
        return self._commit(version)

    def _commit(self, version: int) -> Commit:
        name = commit_name(version)
        try:
            return parse_commit(version, self._store.chunks(f"{LOG}/{name}"))
        except NotFound as error:
            raise HistoryLost(
                f"{self._store.url}: the commit of version {version} is gone",
                version=version,
                file=name,
            ) from error
        except Malformed as error:
            raise RecordInvalid(
                f"{self._store.url}: the commit of version {version} is damaged: {error}; restore the file from a copy",
                version=version,
                file=name,
            ) from error

    def digest(self, version: int) -> str | None:
        """The digest of a version's commit, as ``read`` gives it, by one short read; None if the commit is gone."""
        digest = Digest()
        try:
            list(digest.passing([self._store.read(f"{LOG}/{commit_name(version)}", DIGESTED_BYTES)]))
        except NotFound:
            return None
        return digest.text

    def newest_first(self, stop: int = 0) -> Iterator[Commit]:
        """The commits from the head down to ``stop``, each read when it is asked for.

        Ends with ``HistoryLost`` where the log does, unless that is at ``stop``.
        """
        for version in range(self.head(), stop - 1, -1):
            yield self.read(version)

    def protocol_and_metadata(self) -> tuple[Protocol, TableMetadata]:
        """Both as of the head: from the newest readable checksum or checkpoint, and the commits above it."""
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
        raise RecordInvalid(f"{self._store.url}: version 0 lacks protocol or metadata", version=0)

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
        """The end of the log and the version it begins at: the last checkpoint, if its pointer is good."""
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
            raise SourceNotDelta(f"{self._store.url} is not a Delta table: its log is empty or missing")
        return listing.head
