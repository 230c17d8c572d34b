"""A deliberate protocol bug: one edit of the production core."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from tests.mutation import Edit, mutated


@dataclass(frozen=True)
class Mutant(Edit):
    topic: bool = False
    """Whether a topic's history is what it spoils."""
    trouble: str | None = None
    """What has to befall a build for it to matter, if that befalls no other."""


def caught_by(mutant: Mutant, seeds: range) -> tuple[int, str] | None:
    """The first seed whose run breaks an invariant, and which; None if the bug goes unnoticed."""
    with mutated(mutant, "tests.simulation"):
        world = importlib.import_module("tests.simulation.world")
        for seed in seeds:
            try:
                world.World(seed, topic=mutant.topic, trouble=mutant.trouble).run()
            except world.Violation as violation:
                return seed, str(violation)
    return None
