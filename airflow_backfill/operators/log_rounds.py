"""The base of the phases that apply the log up to a lag."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_backfill.core.gates.max_lag import MAX_LAG, MaxLag
from airflow_backfill.core.values.bound import PATIENCE_ROUNDS
from airflow_backfill.operators.rounds import RoundsOperator
from airflow_backfill.watching.conditions import lag_arguments, max_lag_of


class LogRoundsOperator(RoundsOperator):
    """
    A phase that applies the log until at most ``max_lag`` is pending.

    :param max_lag: how much may be pending: a number of epochs, or the age of the oldest one.
    :param patience: rounds in a row that may fail to lower the number of pending epochs, before NOT_CONVERGING.
    """

    def __init__(self, *, max_lag: int | timedelta = MAX_LAG, patience: int = PATIENCE_ROUNDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_lag = max_lag
        self.patience = patience

    @property
    def lag(self) -> MaxLag:
        return max_lag_of(self.max_lag)

    def settings(self) -> list[str]:
        return [*lag_arguments(self.lag), "--patience", str(self.patience), *super().settings()]
