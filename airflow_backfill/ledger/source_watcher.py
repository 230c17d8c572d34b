"""A source's log as it grows, read without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from typing import Any

from airflow_backfill.core.delta.epochs import epoch_of, lost
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store

PACE = 10
"""Commits of a landing table from which its pace is taken."""


class SourceWatcher:
    """Watches a source's log: each commit is read once, and nothing of its data."""

    def __init__(self, plan: Plan, spark: Any = None, options: Mapping[str, str] | None = None) -> None:
        self._plan = plan
        alone = plan.spec.source is None
        self._log = None if alone else DeltaLog(open_store(plan.spec.table, spark=spark, options=options))
        self._epochs = Backlog()
        self._times: dict[int, int] = {}

    def view(self, after: int) -> SourceView:
        """The source now, with every commit later than ``after``; a topic alone has none."""
        if self._log is None:
            return SourceView(self._plan.source.table_id, after, after, Backlog())
        _, metadata = self._log.protocol_and_metadata()
        head = self._log.head()
        epochs = self._remembered(self._log, after)
        seen = epochs[-1].number if epochs else after
        if metadata.table_id == self._plan.source.table_id:
            there = set(self._log.versions(seen))
            new = range(seen + 1, head + 1)
            epochs = epochs.followed_by(epoch_of(self._plan, self._log.read(v)) if v in there else lost(v) for v in new)
        self._epochs = epochs
        kept = Retention.of(metadata.configuration).shorter
        at, interval = self._pace(self._log, head) if self._plan.splits.landing else (0, None)
        # Asked last: a history that is put back while it is read shows here, or else in what is read by it.
        digest = self._log.digest(after)
        return SourceView(metadata.table_id, head, after, epochs, kept, at, interval, digest)

    def _remembered(self, log: DeltaLog, after: int) -> Backlog:
        """What is known of the epochs after this one; nothing if that begins later, or is not what the log has now."""
        known = self._epochs
        if not known or known[0].number > after + 1 or log.digest(known[-1].number) != known[-1].digest:
            return Backlog()
        return known[after + 1 - known[0].number :]

    def _pace(self, log: DeltaLog, head: int) -> tuple[int, int | None]:
        """When the head was committed, and what usually passes between two commits, if there were some."""
        recent = [version for version in log.versions(max(head - PACE, -1)) if version <= head]
        self._times = {v: self._times.get(v) or log.read(v).timestamp for v in recent}
        times = sorted(self._times.values())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return times[-1], round(median(gaps)) if len(gaps) >= PACE // 2 else None
