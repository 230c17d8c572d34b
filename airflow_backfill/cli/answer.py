"""What a command answers: as JSON and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """``document`` is plain JSON, as ``docs/schema`` describes it. Without ``good`` the exit status is 1."""

    document: dict[str, Any]
    text: str
    good: bool = True
