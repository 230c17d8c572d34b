"""Documents as canonical JSON: equal values have equal texts, so fingerprints can be compared. Reading is strict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def encode(value: Any) -> str:
    """The canonical text of ``value``: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def parts(value: Any, *required: str, optional: Sequence[str] = ()) -> list[Any]:
    """The fields of an object in this order, None for an optional one that is missing; ValueError for other fields."""
    known = {*required, *optional}
    fits = isinstance(value, dict) and set(required) <= set(value) <= known
    if not fits or any(value.get(name, "") is None for name in optional):
        raise ValueError(f"an object with the fields {', '.join(required)} is required, found {repr(value)[:100]}")
    return [value.get(name) for name in (*required, *optional)]


def count(value: Any, least: int = 0) -> int:
    """The whole number that ``value`` is; ValueError if it is less than ``least``, or anything else."""
    if type(value) is not int or value < least:
        raise ValueError(f"not a count: {value!r}")
    return value


def text(value: Any) -> str:
    """The text that ``value`` is; ValueError if it is empty, or anything else."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"not a text: {value!r}")
    return value


def fingerprint(value: Any) -> str:
    """32 hex digits of the SHA-256 of the canonical text."""
    return fingerprint_of(encode(value))


def fingerprint_of(text: str) -> str:
    """The fingerprint of a value with this canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
