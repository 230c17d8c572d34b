"""How much of both sides a proof reads."""

from __future__ import annotations

from enum import Enum


class ProofKind(str, Enum):
    FULL = "full"
    """The target, and the whole source at the hand-off epoch."""
    INCREMENTAL = "incremental"
    """The target. The source's digest is added up from what the build has read of it."""
    SAMPLED = "sampled"
    """Some ranges of the key, on both sides, and the numbers of rows that the logs give."""
