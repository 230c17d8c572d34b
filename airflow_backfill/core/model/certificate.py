"""The certificate: what a verification has proven."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Certificate:
    """The proof that target and transformed source are equal at an epoch."""

    epoch: int
    target_version: int
    rows: int
    digest: str
    buckets: int
    at: int
    gone: int = 0
    """Records of a topic that were read, and that Kafka does not have any more, or might have lost before they were
    compared: they were counted.
    """
    lost: int = 0
    """Offsets of a topic's history that were passed over, because neither Kafka nor the landing table had them."""
