"""Rewrites the keys that a proof found to differ."""

from __future__ import annotations

from airflow_backfill.core.values.control import Errand
from airflow_backfill.operators.order import OrderOperator


class RepairOperator(OrderOperator):
    """
    Rewrites the keys that differ from the source at the hand-off epoch, as ``table-backfill repair`` does; clear the
    task ``verify`` afterwards.
    """

    entry_point = Errand.REPAIR.value
    reads_source = True

    def arguments(self) -> list[str]:
        return []
