"""Who works: one try at a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task: its place among all attempts of the build, and a name that no other attempt has."""

    generation: int
    name: str
