"""How many keys of a target differ from its source, in words."""

from __future__ import annotations

from collections.abc import Mapping

KINDS = {"missing": "missing in the target", "extra": "only in the target", "stale": "with other values"}
"""How a key may differ, as the data of VerificationFailed name it, in words."""


def counted(counts: Mapping[str, int]) -> str:
    """The number of each kind."""
    return ", ".join(f"{count:,} {KINDS[kind]}" for kind, count in counts.items() if kind in KINDS)


def how_many_differ(counts: Mapping[str, int], *, keyed: bool) -> str:
    """How many keys differ, or rows of a target without a key, and how."""
    total, one = sum(counts.values()), "key" if keyed else "row"
    return f"{total:,} {one}{' differs' if total == 1 else 's differ'} ({counted(counts)})"
