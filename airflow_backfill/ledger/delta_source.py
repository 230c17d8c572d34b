"""A Delta table's log as the log of a source, read without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from airflow_backfill.core.delta.epochs import FEED, epoch_of, has_feed, lost, measured
from airflow_backfill.core.errors import FeedOff
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.registry import lets_keys_be_missing
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.source_log import Admitted
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable

PACE_COMMITS = 10
"""Commits of a landing table from which its usual interval is estimated."""


class DeltaSourceLog:
    """The log of the table in ``log``: an epoch is a version."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log

    def admit(self, spec: BackfillSpec) -> Admitted:
        epoch = self._log.head()
        # A checksum would be enough to know the table, but a damaged commit must fail now.
        newest = self._log.read(epoch)
        protocol, metadata = self._log.protocol_and_metadata()
        check_readable(protocol)
        if not lets_keys_be_missing(spec.strategy) and not has_feed(metadata):
            raise FeedOff(
                f"the source has no change data feed, which the build needs for updates and deletes; switch it on: "
                f"ALTER TABLE delta.`{spec.source}` SET TBLPROPERTIES ({FEED} = true), then clear the task",
                source=spec.source,
                version=epoch,
            )
        return Admitted(epoch, metadata, newest.digest)

    def recent(self, upto: int, count: int) -> Sequence[Epoch]:
        versions = self._log.versions(max(-1, upto - count))
        return [measured(self._log.read(version)) for version in versions if version <= upto]

    def watch(self, plan: Plan) -> DeltaWatch:
        return DeltaWatch(plan, self._log)


class DeltaWatch:
    """Watches a table's log: reads each commit once, and no rows."""

    def __init__(self, plan: Plan, log: DeltaLog) -> None:
        self._plan, self._log = plan, log
        self._epochs = Backlog()
        self._times: dict[int, int] = {}

    def view(self, after: int) -> SourceView:
        """The source now, with every commit after ``after``."""
        _, metadata = self._log.protocol_and_metadata()
        head = self._log.head()
        epochs = self._remembered(after)
        last = epochs[-1].number if epochs else after
        if metadata.table_id == self._plan.source.table_id:
            there = set(self._log.versions(last))
            new = range(last + 1, head + 1)
            epochs = epochs.followed_by(epoch_of(self._plan, self._log.read(v)) if v in there else lost(v) for v in new)
        self._epochs = epochs
        kept = Retention.of(metadata.configuration).shorter
        at, interval = self._pace(head) if self._plan.splits.landing else (0, None)
        # Read last: if the source is restored while it is read, this digest or that of a later view differs.
        digest = self._log.digest(after)
        return SourceView(metadata.table_id, head, after, epochs, kept, at, interval, digest)

    def _remembered(self, after: int) -> Backlog:
        """The known epochs after ``after``; empty if they begin later, or if the log has another history now."""
        known = self._epochs
        if not known or known[0].number > after + 1 or self._log.digest(known[-1].number) != known[-1].digest:
            return Backlog()
        return known[after + 1 - known[0].number :]

    def _pace(self, head: int) -> tuple[int, int | None]:
        """When the head was committed, and the median interval of commits in milliseconds; None for too few commits."""
        recent = [version for version in self._log.versions(max(head - PACE_COMMITS, -1)) if version <= head]
        self._times = {v: self._times.get(v) or self._log.read(v).timestamp for v in recent}
        times = sorted(self._times.values())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return times[-1], round(median(gaps)) if len(gaps) >= PACE_COMMITS // 2 else None
