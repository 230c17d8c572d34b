"""A deliberate protocol bug: one edit of the production core."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.spark.run import next_phases, phases
from airflow_backfill.spark.verify import source_digests
from tests.mutation import Edit, mutated


@dataclass(frozen=True)
class Mutant(Edit):
    topic: bool = False
    """Whether a topic's history is what it spoils."""
    chain: bool | None = None
    """Whether it takes a chain; None: as the seed says."""
    trouble: str | None = None
    """What has to befall a build for it to matter, if that befalls no other."""
    adds_up: bool | None = None
    """Whether it takes an incremental proof; None: as the seed says."""
    often: Mapping[str, float] = field(default_factory=dict)
    """How often what it takes happens, where that is more often than in other worlds."""

    through: bool = False
    """Whether one application has to go through the gate."""
    haunted: bool = False
    """Whether it takes an attempt of a build whose table stood here before."""

    def world(self, world: Any, seed: int) -> Any:
        """Where it may matter. ``world``: the class of simulated worlds."""
        found = world(
            seed,
            topic=self.topic,
            chain=self.chain,
            trouble=self.trouble,
            through=self.through,
            adds_up=self.adds_up,
        )
        found.faults |= {name: p for name, p in self.often.items() if name != "lanes" or not found.one_lane}
        found.haunted = found.haunted or self.haunted
        return found


def ends(mutant: Mutant, seed: int) -> str | None:
    """What breaks in the world of a seed without the bug; None if it ends as it must. Only outside of ``mutated``."""
    world = importlib.import_module("tests.simulation.world")
    try:
        mutant.world(world.World, seed).run()
    except (world.Violation, AssertionError) as violation:
        return str(violation)
    return None


def caught_by(mutant: Mutant, seeds: range) -> tuple[int, str] | None:
    """The first seed whose run breaks an invariant, and which; None if the bug goes unnoticed."""
    shell = (module.__name__ for module in (next_phases, phases, source_digests))
    with mutated(mutant, "tests.simulation", *shell):
        world = importlib.import_module("tests.simulation.world")
        for seed in seeds:
            try:
                mutant.world(world.World, seed).run()
            except (world.Violation, AssertionError) as violation:
                # The code's own assertions notice bugs, too.
                return seed, str(violation)
    return None
