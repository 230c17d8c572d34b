"""Opens the log of a source: the only place that names the format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.source.source_log import SourceLog, SourceWatch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.delta_source import DeltaSourceLog, DeltaWatch
from airflow_backfill.ledger.open_store import StoreOptions, open_store


def open_source(location: str, spark: Any = None, options: StoreOptions = None) -> SourceLog:
    """The log of the table at ``location``; reads nothing yet. For ``spark`` and ``options`` see ``open_store``."""
    return DeltaSourceLog(DeltaLog(open_store(location, spark=spark, options=options)))


def watch_source(plan: Plan, spark: Any = None, options: StoreOptions = None) -> SourceWatch:
    """Watches the source of a plan."""
    return _NoLog(plan) if plan.spec.source is None else open_source(plan.spec.source, spark, options).watch(plan)


def glance_at_source(plan: Plan, after: int, known: int | None = None, options: StoreOptions = None) -> Glance:
    """One glance at the source of a plan, in fewer requests than a watch takes, which remembers more. ``known``: an
    epoch that the source has had a short time ago, from which on its log is listed.
    """
    if plan.spec.source is None:
        return _NoLog(plan).glance(after)
    log = DeltaLog(open_store(plan.spec.source, options=options))
    log.known = known
    return DeltaWatch(plan, log, once=True).glance(after)


class _NoLog:
    """The log of a topic without a landing table: nothing is ever pending."""

    def __init__(self, plan: Plan) -> None:
        self._id = plan.source.table_id

    def view(self, after: int) -> SourceView:
        return SourceView(self._id, after, after, Backlog())

    def glance(self, after: int, commits: Iterable[int] = ()) -> Glance:
        return Glance(self._id, after, after)

    def stopped(self, source: Glance, after: int) -> Glance:
        return source
