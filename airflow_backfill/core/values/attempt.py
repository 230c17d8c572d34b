"""One try at a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task. ``generation`` orders the attempts of a target; ``name`` is unique."""

    generation: int
    name: str
