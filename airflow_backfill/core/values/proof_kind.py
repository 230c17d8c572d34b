"""How much of both sides a proof reads."""

from __future__ import annotations

from enum import Enum

from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.row_hash import RowHash


class ProofKind(str, Enum):
    FULL = "full"
    """The target, and the whole source at the hand-off epoch."""
    INCREMENTAL = "incremental"
    """The target. The source's digest is added up from what the build has read of it."""


def check_proof(row_hash: RowHash, kind: ProofKind) -> None:
    """InvalidSpec for a combination that no proof can have."""
    if kind is ProofKind.INCREMENTAL and row_hash is not RowHash.TYPED:
        raise invalid("row_hash", row_hash.value, "an incremental proof adds up typed hashes; remove the option")
