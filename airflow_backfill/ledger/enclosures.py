"""Records that are too large for a commit: files beside the target that the commit names by their hash.

Every reader of the log reads a commit's metadata, and a MERGE sends it to each of its tasks. The file is written before
the commit that names it. Its name is its hash, so a change is detected, and a retry writes the same file.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from airflow_backfill.core.errors import NotPlanned, RecordInvalid
from airflow_backfill.core.model.record import MAX_BYTES
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.document import encode
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.log_listing import LogListing
from airflow_backfill.ledger.store import NotFound, Store

FOLDER = "records"
MAX_RECORD_BYTES = 1 << 18
"""A larger record becomes a file."""
_MARK = "airflow_backfill_record"


class Enclosures:
    """The records in one control folder."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enclosed(self, text: str) -> str:
        """The commit's text for this record: the record itself, or the name of its file, which is written."""
        data = text.encode()
        if len(data) <= MAX_RECORD_BYTES:
            return text
        digest = hashlib.sha256(data).hexdigest()
        if not self._store.create(_name(digest), data) and self._found(digest) is None:
            self._store.put(_name(digest), data)
        return encode({_MARK: digest})

    def opened(self, commit: Commit) -> Commit:
        """The commit with its record, which may be in a file; RecordInvalid if that is missing or altered."""
        text = commit.user_metadata
        if text is None or not commit.txns or not text.startswith(f'{{"{_MARK}":'):
            return commit
        try:
            digest = actions.text(actions.decode(text).get(_MARK))
            found = self._found(digest)
        except Malformed:
            digest, found = text[:200], None
        if found is None:
            raise RecordInvalid(
                f"version {commit.version}: its record, the file {self._store.url}/{_name(digest)}, is missing or "
                "altered. Restore the file from a backup and clear the task, or go on without it: 'table-backfill "
                "recover TARGET --epoch N --why REASON' with the source's newest epoch, then repair",
                version=commit.version,
                file=_name(digest),
            )
        return replace(commit, user_metadata=found)

    def _found(self, digest: str) -> str | None:
        try:
            data = self._store.read(_name(digest), MAX_BYTES + 1)
        except NotFound:
            return None
        return data.decode() if hashlib.sha256(data).hexdigest() == digest else None


class TargetLog(DeltaLog):
    """The log of a target: its commits contain their records, and not the totals of their files. ``NotPlanned`` if
    there is no table.

    A record says what its commit did, and any other commit that changes rows ends the build, so nobody needs these
    totals; a MERGE that touches a million files would be most of a gigabyte to read.
    """

    def __init__(self, store: Store, enclosures: Enclosures) -> None:
        super().__init__(store)
        self._enclosures = enclosures

    def _head(self, listing: LogListing) -> int:
        if listing.head is None:
            raise NotPlanned(
                f"target: {self._store.url} is no Delta table, so no build is there: none was planned, or its target "
                "was dropped or deleted"
            )
        return super()._head(listing)

    def read(self, version: int) -> Commit:
        return self._enclosures.opened(self._commit(version, counted=False))


def _name(digest: str) -> str:
    return f"{FOLDER}/{digest}.json"
