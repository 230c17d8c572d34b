"""Registers the strategies of the package. A new one is a module in this folder and a line here."""

from airflow_backfill.core.model.registry import register
from airflow_backfill.core.strategies.arrangement import Arrangement
from airflow_backfill.core.strategies.chain import Chain
from airflow_backfill.core.strategies.snapshot import Snapshot
from airflow_backfill.core.strategies.source import Source

for strategy in (Snapshot(), Arrangement(), Chain(), Source()):
    register(strategy)
