"""Who ordered something, why, when and from where. For people: nothing is decided by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_backfill.core.values.document import count
from airflow_backfill.core.values.options import invalid

WHY: Final = "why"
MAX_CHARACTERS = {"by": 200, WHY: 1_000, "via": 1_000}


@dataclass(frozen=True, slots=True)
class Signature:
    """What is unknown is None. InvalidSpec for an empty text, one that is too long, and control characters."""

    by: str | None = None
    """The user."""
    why: str | None = None
    """The reason, in the user's words."""
    at: int | None = None
    """When, by the clock of whoever ordered it: milliseconds since 1970."""
    via: str | None = None
    """Where it was ordered: ``cli``, ``page``, or a task instance of Airflow."""

    def __post_init__(self) -> None:
        for name, most in MAX_CHARACTERS.items():
            said = getattr(self, name)
            if said is not None and not (said.strip() and len(said) <= most and said.isprintable()):
                raise invalid(name, said, f"must be one line of 1 to {most} printable characters")

    def to_json(self) -> dict[str, Any]:
        return {name: part for name in _NAMES if (part := getattr(self, name)) is not None}

    @staticmethod
    def in_document(document: Mapping[str, Any]) -> Signature:
        """The signature in a document with other fields; ValueError if one of its fields has another type."""
        found = {name: document[name] for name in _NAMES if name in document}
        if not all(isinstance(part, str) for name, part in found.items() if name != "at"):
            raise ValueError(f"not a signature: {found!r}"[:200])
        return Signature(**{**found, **({"at": count(found["at"])} if "at" in found else {})})


def attributed(deed: str, by: str | None, why: str | None) -> str:
    """``deed`` in words, with who did it, and why if that is known."""
    said = f"{deed} by {by or 'an unnamed user'}"
    return f"{said}: {why}" if why else said


_NAMES = ("by", "why", "at", "via")
UNSIGNED = Signature()
