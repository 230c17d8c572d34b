"""The keys that differ, as the last proof named them: how many, how, and a bounded sample.

They are kept nowhere but in the outcome of the attempt that found them, which ``table-backfill clean`` empties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.errors import BackfillError, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.reports.attempt_status import AttemptStatus
from airflow_backfill.core.values.differing import KINDS
from airflow_backfill.core.values.hidden import HIDDEN

SHOWN = 5
"""Keys in a text."""
_PROOFS = ("verify", "prove")
Found = Mapping[str, Any]


def settles(one: AttemptStatus) -> bool:
    """Whether the attempt has told whether keys differ: it has proven the target, found that it differs, or repaired
    it.
    """
    return one.outcome == VerificationFailed.code or (one.outcome == "OK" and one.task in (*_PROOFS, "repair"))


def difference(
    last: AttemptStatus | None, certificate: Certificate | None, key: Sequence[str]
) -> dict[str, Any] | None:
    """What ``last``, the last attempt that ``settles``, has found to differ, as plain JSON; None if nothing, or if the
    ``certificate`` is of a newer version of the target. ``key``: the columns in the source, which ``explain`` takes.

    Each of ``keys`` has its columns in the target, and what to ``explain``: None if it cannot be explained, because
    rows have no key or their values are hidden.
    """
    if last is None or last.outcome != VerificationFailed.code:
        return None
    version = last.data.get("target_version")
    if certificate is not None and not (isinstance(version, int) and version >= certificate.target_version):
        return None
    counts = last.data.get("counts")
    return {
        "generation": last.generation,
        "at": last.ended,
        "epoch": last.data.get("epoch"),
        "message": last.message,
        "counts": {kind: counts[kind] for kind in KINDS if kind in counts} if isinstance(counts, Mapping) else {},
        "keys": [_key(one, key) for one in _keys(last.data)],
    }


def _keys(data: Found) -> list[Found]:
    sample = data.get("sample")
    return [one for one in sample if _is_key(one)] if isinstance(sample, list) else []


def _is_key(one: Any) -> bool:
    return isinstance(one, Mapping) and one.get("kind") in KINDS and isinstance(one.get("key"), Mapping)


def _key(one: Found, key: Sequence[str]) -> dict[str, Any]:
    values = list(one["key"].values())
    known = len(values) == len(key) > 0 and not {None, HIDDEN} & set(values)
    explain = [f"{name}={value}" for name, value in zip(key, values, strict=True)] if known else None
    return {"kind": one["kind"], "key": dict(one["key"]), "explain": explain}


def named(keys: Sequence[Found]) -> list[str]:
    """The first keys as lines, and how many more are known."""
    lines = [f"{_values(one['key'])}: {KINDS[one['kind']]}" for one in keys[:SHOWN]]
    more = len(keys) - len(lines)
    return lines + ([f"and {more} more in the answer to --json"] if more else [])


def keys_of(error: BackfillError) -> list[str]:
    """The keys that an error names because they differ, as lines; none for other errors."""
    return [f"  {line}" for line in named(_keys(error.data))] if isinstance(error, VerificationFailed) else []


def _values(key: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())
