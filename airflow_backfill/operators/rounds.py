"""The base of the phases that write rows: the size of a round."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.values.round_size import RoundSize, round_options
from airflow_backfill.operators.phase import PhaseOperator


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
