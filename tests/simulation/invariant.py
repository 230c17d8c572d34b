"""What a broken invariant is."""

from __future__ import annotations

WHOLE = 10**9
"""All of an epoch's key buckets."""


class Violation(AssertionError):
    """An invariant does not hold: the message names it."""


def must(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)
