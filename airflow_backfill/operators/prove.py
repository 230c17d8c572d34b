"""Compares a target with its source, whatever the build does meanwhile."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.options import choice, flag
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.operators.order import OrderOperator


class ProveOperator(OrderOperator):
    """
    Compares the target with its source at the epoch where it stands, as ``table-backfill prove`` does, and returns the
    certificate. Writes nothing to the target, and disturbs no task. Fails for good, and names keys, if rows differ.

    :param full: whether to read the whole source again although the build's ``proof`` is "incremental".
    :param row_hash: "typed", or "sha256", which takes longer.
    """

    entry_point = Errand.PROVE.value
    reads_source = True

    def __init__(self, *, full: bool = False, row_hash: str = RowHash.TYPED.value, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.full = flag("full", full)
        self.row_hash = RowHash(choice({"row_hash": row_hash}, "row_hash", [by.value for by in RowHash]))

    def arguments(self) -> list[str]:
        return [*(["--full"] if self.full else []), "--row-hash", self.row_hash.value]
