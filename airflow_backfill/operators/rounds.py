"""The base of the phases that write rows: the size of a round."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.values.round_size import ROUND_BYTES, ROUND_ROWS, RoundSize
from airflow_backfill.operators.phase import PhaseOperator


class RoundsOperator(PhaseOperator):
    """
    A phase that works in rounds. Each round is one commit of the target.

    :param round_bytes: limit for the source's bytes in a round; a single file or epoch may be larger.
    :param round_rows: limit for the source's rows in a round; a single file or epoch may be larger.
    """

    def __init__(self, *, round_bytes: int = ROUND_BYTES, round_rows: int = ROUND_ROWS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.round_bytes = round_bytes
        self.round_rows = round_rows

    @property
    def size(self) -> RoundSize:
        return RoundSize(self.round_bytes, self.round_rows)

    def settings(self) -> list[str]:
        size = ["--round-bytes", str(self.round_bytes), "--round-rows", str(self.round_rows)]
        return [*super().settings(), *size]
