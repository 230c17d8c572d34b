"""The proof that the target equals its source."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.attempts.goals import VerifyGoal
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import choice
from airflow_backfill.core.values.proof_kind import ProofKind, check_proof
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.operators.phase import PhaseOperator


class VerifyOperator(PhaseOperator):
    """Compares all rows of the target with the transformed source at the hand-off epoch, and commits a certificate.

    Fails for good if they differ, and names keys that differ.

    :param row_hash: "typed", or "sha256", which takes longer. See "Proof" in the documentation.
    :param proof: "full" reads the whole source again; "incremental" adds up what the build has read of it, and needs
        strategy snapshot or chain.
    """

    entry_point = "verify"

    def __init__(
        self, *, row_hash: str = RowHash.TYPED.value, proof: str = ProofKind.FULL.value, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.row_hash = RowHash(choice({"row_hash": row_hash}, "row_hash", [by.value for by in RowHash]))
        self.proof = ProofKind(choice({"proof": proof}, "proof", [kind.value for kind in ProofKind]))
        check_proof(self.row_hash, self.proof)

    def task(self) -> VerifyGoal:
        return VerifyGoal(self.row_hash, self.proof)

    def settings(self) -> list[str]:
        return [*super().settings(), "--row-hash", self.row_hash.value, "--proof", self.proof.value]

    def result(self, state: BuildState) -> dict[str, Any]:
        certificate = summarize(state)["certificate"]
        return {"target": self.target, "build": state.plan.build, "certificate": certificate}
