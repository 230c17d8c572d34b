"""A Delta table's log as the log of a source, read without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median

from airflow_backfill.core.delta.epochs import FEED, epoch_of, has_feed, lost, measured
from airflow_backfill.core.errors import FeedOff, HistoryLost, RecordInvalid
from airflow_backfill.core.model.plan import Plan, SourceFacts
from airflow_backfill.core.model.registry import lets_keys_be_missing
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.source.source_log import Admitted
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.delta_log import BATCH, DeltaLog, Newest
from airflow_backfill.ledger.features import check_readable

PACE_COMMITS = 10
"""Commits of a landing table from which its usual interval is estimated."""


class DeltaSourceLog:
    """The log of the table in ``log``: an epoch is a version."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log

    def admit(self, spec: BackfillSpec) -> Admitted:
        # One look: a second one might see a newer version, with another schema.
        newest = self._log.newest()
        epoch, metadata = newest.version, newest.metadata
        # A checksum would be enough to know the table, but a damaged commit must fail now.
        digest = self._log.read(epoch).digest
        check_readable(newest.protocol, f"the source {spec.table}")
        feed = has_feed(metadata)
        if not lets_keys_be_missing(spec.strategy) and not feed:
            raise FeedOff(
                f"the source has no change data feed, which the build needs for updates and deletes; switch it on: "
                f"ALTER TABLE delta.`{spec.source}` SET TBLPROPERTIES ({FEED} = true), then clear the task",
                source=spec.source,
                version=epoch,
            )
        facts = SourceFacts(metadata.table_id, epoch, metadata.schema_json, metadata.partition_columns, feed, digest)
        return Admitted(facts, Retention.of(metadata.configuration))

    def recent(self, upto: int, count: int) -> Sequence[Epoch]:
        versions = range(max(0, upto - count + 1), upto + 1)
        return [measured(commit) for commit in self._log.read_each(versions) if commit is not None]

    def watch(self, plan: Plan) -> DeltaWatch:
        return DeltaWatch(plan, self._log)


class DeltaWatch:
    """Watches a table's log: reads each commit once, and no rows. ``once``: nobody looks again, so that what would save
    a later glance a request is not read.
    """

    def __init__(self, plan: Plan, log: DeltaLog, *, once: bool = False) -> None:
        self._plan, self._log, self._once = plan, log, once
        self._epochs = Backlog()
        self._times: dict[int, int | None] = {}
        self._looked = -1
        self._stops: Epoch | None = None

    def view(self, after: int) -> SourceView:
        """The source now, with every commit after ``after``."""
        newest = self._newest()
        head, metadata = newest.version, newest.metadata
        epochs = self._remembered(after)
        if metadata.table_id == self._plan.source.table_id:
            epochs = epochs.followed_by(self._read(epochs[-1].number if epochs else after, head))
        self._epochs = epochs
        kept = Retention.of(metadata.configuration).shorter
        at, interval = self._pace(head) if self._plan.splits.landing else (0, None)
        # Read last: if the source is restored while it is read, this digest or that of a later view differs.
        digest = self._log.digest(after)
        return SourceView(metadata.table_id, head, after, epochs, kept, at, interval, digest)

    def glance(self, after: int, commits: Iterable[int] = ()) -> Glance:
        """The source now, without its pending epochs."""
        newest = self._newest()
        head, table_id = newest.version, newest.metadata.table_id
        seen = Glance(table_id, head, after, kept=Retention.of(newest.metadata.configuration).shorter)
        if table_id != self._plan.source.table_id or head < after:
            return seen
        first = self._first(after + 1) if head > after else None
        # Read last, as in a view.
        digests = {version: self._log.digest(version) for version in commits if version <= head}
        found = tuple(CommitId(version, digest) for version, digest in digests.items() if digest is not None)
        return replace(seen, first=first, commits=found)

    def _newest(self) -> Newest:
        """The source now. UnsupportedTable if it has got a feature since that may hide its newest commits."""
        newest = self._log.newest(marked=not self._once)
        check_readable(newest.protocol, f"the source {self._plan.spec.table}")
        return newest

    def stopped(self, source: Glance, after: int) -> Glance:
        """The glance with the first epoch after ``after`` that stops the build. Keeps none but that one in memory."""
        if source.table_id != self._plan.source.table_id:
            return source
        if source.head < self._looked or (self._stops is not None and self._stops.number <= after):
            self._looked, self._stops = -1, None
        if self._stops is None:
            for epoch in self._read(max(after, self._looked), source.head):
                self._looked = epoch.number
                if epoch.stop is not None:
                    self._stops = epoch
                    break
        return replace(source, stops=self._stops)

    def _first(self, version: int) -> Epoch:
        at = self._log.committed_at(version)
        return lost(version) if at is None else Epoch(version, at, rows=0, bytes=0)

    def _read(self, after: int, head: int) -> Iterator[Epoch]:
        """The epochs after ``after`` up to ``head``, with those whose commits were deleted."""
        versions = range(after + 1, head + 1)
        # One listing is cheaper than to ask for each of many deleted commits.
        there = versions if len(versions) <= BATCH else sorted({*self._log.versions(after)} & {*versions})
        commits = self._log.read_each(there)
        known = dict.fromkeys(there)
        schema: str | None = None
        for version in versions:
            commit = next(commits) if version in known else None
            before = partial(self._schema, version - 1) if schema is None else partial(str, schema)
            yield lost(version) if commit is None else epoch_of(self._plan, commit, before)
            if commit is None:
                schema = None
            elif commit.metadata is not None:
                schema = commit.metadata.schema_json

    def _schema(self, version: int) -> str | None:
        """The table's schema at a version; None if the log does not tell it any more."""
        try:
            return self._log.metadata_at(version).schema_json
        except (HistoryLost, RecordInvalid):
            return None

    def _remembered(self, after: int) -> Backlog:
        """The known epochs after ``after``; empty if they begin later, or if the log has another history now."""
        known = self._epochs
        if not known or known[0].number > after + 1 or self._log.digest(known[-1].number) != known[-1].digest:
            return Backlog()
        return known[after + 1 - known[0].number :]

    def _pace(self, head: int) -> tuple[int, int | None]:
        """When the head was committed, and the median interval of commits in milliseconds; None for too few commits."""
        recent = range(max(head - PACE_COMMITS, -1) + 1, head + 1)
        self._times = {v: self._times.get(v) or self._log.committed_at(v) for v in recent}
        times = sorted(at for at in self._times.values() if at is not None)
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return times[-1], round(median(gaps)) if len(gaps) >= PACE_COMMITS // 2 else None
