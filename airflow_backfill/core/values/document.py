"""Canonical JSON: equal values have equal texts, so fingerprints can be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def encode(value: Any) -> str:
    """The canonical text of ``value``: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def fingerprint(value: Any) -> str:
    """32 hex digits of the SHA-256 of the canonical text."""
    return hashlib.sha256(encode(value).encode()).hexdigest()[:32]
