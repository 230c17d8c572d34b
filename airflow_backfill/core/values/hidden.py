"""What stands for a value of a row that must not be shown, and which errors show such values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_backfill.core.errors import (
    ApplicationFailed,
    DuplicateKey,
    ExpressionFailed,
    KeyNull,
    OrderUnknown,
    QueryRefused,
    TargetRefuses,
    Undecodable,
    kinds,
)

HIDDEN: Final = "***"
SAMPLE: Final = "sample"
"""Where the data of an error has values of rows."""
TELLING: Final = frozenset(
    kind.code
    for kind in (
        *(ApplicationFailed, DuplicateKey, ExpressionFailed, KeyNull),
        *(OrderUnknown, QueryRefused, TargetRefuses, Undecodable),
    )
)
"""Codes of errors whose message may show values of rows: of a sample, or as Spark has put them into its own error."""
_PLAIN: Final = frozenset(kind.code for kind in kinds()) - TELLING
UNSEEN: Final = "the message may show values of rows, so only users who may command the build see it"


def without_values(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt's outcome for people who may not see values of rows. A code of a newer version may show them, too."""
    shown = {**outcome}
    if isinstance(data := outcome.get("data"), Mapping):
        shown["data"] = {name: part for name, part in data.items() if name != SAMPLE}
    if "message" in outcome and outcome["code"] not in _PLAIN:
        shown["message"] = UNSEEN
    return shown
