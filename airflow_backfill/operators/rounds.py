"""The bases of the phases that write rows: the size of a round, and the lag up to which the log is applied."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_backfill.core.gates.max_lag import MAX_LAG, MaxLag
from airflow_backfill.core.values.bound import PATIENCE_ROUNDS
from airflow_backfill.core.values.options import whole
from airflow_backfill.core.values.round_size import RoundSize, round_options
from airflow_backfill.operators.phase import PhaseOperator
from airflow_backfill.watching.conditions import lag_arguments, max_lag_of


class RoundsOperator(PhaseOperator):
    """
    A phase that works in rounds. Each round is one commit of the target.

    :param round_bytes: limit for the source's bytes in a round; a single file or epoch may be larger. By default it
        follows from the cores of the cluster: 256 MiB for each, at least 2 GiB.
    :param round_rows: limit for the source's rows in a round; a single file or epoch may be larger. By default 2.5
        million for each core, at least 20 million.
    """

    def __init__(self, *, round_bytes: int | None = None, round_rows: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.round_bytes = round_bytes
        self.round_rows = round_rows

    @property
    def size(self) -> RoundSize:
        """As far as it is known here: the cores are those of the application."""
        return RoundSize.on(1, self.round_bytes, self.round_rows)

    def settings(self) -> list[str]:
        return [*super().settings(), *round_options(self.round_bytes, self.round_rows)]


class LogRoundsOperator(RoundsOperator):
    """
    A phase that applies the log until at most ``max_lag`` is pending.

    :param max_lag: how much may be pending: a number of epochs, or the age of the oldest one.
    :param patience: rounds in a row that may fail to lower the number of pending epochs, before NOT_CONVERGING.
    """

    def __init__(self, *, max_lag: int | timedelta = MAX_LAG, patience: int = PATIENCE_ROUNDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_lag = max_lag
        self.patience = whole("patience", patience, 1)

    @property
    def lag(self) -> MaxLag:
        return max_lag_of(self.max_lag)

    def settings(self) -> list[str]:
        return [*lag_arguments(self.lag), "--patience", str(self.patience), *super().settings()]
