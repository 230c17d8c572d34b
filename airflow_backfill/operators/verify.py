"""The proof that the target equals its source."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.attempts.goals import VerifyGoal
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import choice, flag, share
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.operators.phase import PhaseOperator


class VerifyOperator(PhaseOperator):
    """Compares all rows of the target with the transformed source at the hand-off epoch, and commits a certificate.

    Fails for good if they differ, and names keys that differ.

    :param row_hash: "typed", or "sha256", which takes longer. See "Proof" in the documentation.
    :param full: whether to read the whole source again although the build's ``proof`` is another kind.
    :param sample: a share from 0 to 1: of the source that an incremental proof reads again, to compare it with what the
        build has read; of both sides that a sampled proof compares (if not given, a hundredth).
    """

    entry_point = "verify"

    def __init__(
        self, *, row_hash: str = RowHash.TYPED.value, full: bool = False, sample: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.row_hash = RowHash(choice({"row_hash": row_hash}, "row_hash", [by.value for by in RowHash]))
        self.full = flag("full", full)
        self.sample = share("sample", sample)

    def task(self) -> VerifyGoal:
        return VerifyGoal(self.row_hash, self.full, self.sample)

    def settings(self) -> list[str]:
        more = [*(["--full"] if self.full else []), *(["--sample", str(self.sample)] if self.sample else [])]
        return [*super().settings(), "--row-hash", self.row_hash.value, *more]

    def result(self, state: BuildState) -> dict[str, Any]:
        certificate = summarize(state)["certificate"]
        return {"target": self.target, "build": state.plan.build, "certificate": certificate}
