"""Reads builds from where their tables are, without a JVM."""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_backfill.core.plan import Plan
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.reader import BuildReader, SourceWatcher
from airflow_backfill.ledger.store import open_store


class LedgerHook(BaseHook):
    """Opens the logs of sources and targets, and what lies beside a target."""

    def reader(self, target: str) -> BuildReader:
        """Reads the build of a target."""
        return BuildReader(target)

    def watcher(self, plan: Plan) -> SourceWatcher:
        """Watches the source of a plan."""
        return SourceWatcher(plan)

    def control(self, target: str) -> ControlFolder:
        """The attempts and commands of a target."""
        return ControlFolder.beside(target)

    def log(self, location: str) -> DeltaLog:
        """The Delta log of any table."""
        return DeltaLog(open_store(location))
