"""The certificate: the result of a successful verification."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from airflow_backfill.core.values.document import count, parts, text
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash


@dataclass(frozen=True, slots=True)
class Certificate:
    """The proof that target and transformed source are equal at an epoch."""

    epoch: int
    target_version: int
    rows: int
    """Rows that were compared: all of that version, except in a sampled proof."""
    digest: str
    buckets: int
    at: int
    row_hash: RowHash
    kind: ProofKind = ProofKind.FULL
    gone: int = 0
    """Records of a topic that were read, but that Kafka has deleted since, or may have deleted before the comparison.
    They are counted, not compared.
    """
    lost: int = 0
    """Offsets of a topic's history that were skipped, because neither Kafka nor the landing table had them."""
    reread: int = 0
    """Files and epochs of the source that an incremental proof has read again, and found as they were."""

    def to_json(self) -> dict[str, Any]:
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in document.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}

    @staticmethod
    def from_json(value: Any) -> Certificate:
        """Raises ValueError if ``value`` is no certificate."""
        epoch, version, rows, digest, buckets, at, by, kind, *more = parts(value, *_NUMBERS, optional=tuple(_DEFAULTS))
        row_hash = RowHash.SHA256 if by is None else RowHash(by)
        if by == RowHash.SHA256:
            raise ValueError("a certificate by SHA-256 has no row_hash")
        if kind == ProofKind.FULL:
            raise ValueError("a certificate of a full proof has no kind")
        kind = ProofKind.FULL if kind is None else ProofKind(kind)
        gone, lost, reread = (0 if number is None else count(number, 1) for number in more)
        return Certificate(
            count(epoch),
            count(version),
            count(rows),
            text(digest),
            count(buckets),
            count(at),
            row_hash,
            kind,
            gone,
            lost,
            reread,
        )


_NUMBERS = ("epoch", "target_version", "rows", "digest", "buckets", "at")
_DEFAULTS = {"row_hash": RowHash.SHA256, "kind": ProofKind.FULL, "gone": 0, "lost": 0, "reread": 0}
"""Fields that are written only if they differ from these values. Version 0.1 had no other hash and no other
kind, and did not name them."""
