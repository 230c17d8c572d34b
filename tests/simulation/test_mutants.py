"""The simulation bites: each deliberate protocol bug breaks an invariant, under a seed that ``hunt`` has found."""

from __future__ import annotations

import pytest

from tests.simulation.hunt import kept_seeds
from tests.simulation.mutant import Mutant, caught_by
from tests.simulation.mutants import MUTANTS
from tests.simulation.world import World

KEPT = kept_seeds()
OTHERS = range(40)
"""Where seeds are looked for if a kept one does not catch any more."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_protocol_bug_is_caught(mutant: Mutant) -> None:
    seed = KEPT[mutant.name]
    caught = caught_by(mutant, range(seed, seed + 1)) or caught_by(mutant, OTHERS)
    assert caught is not None, f"{mutant.name}: nothing noticed it; look for a seed: python -m tests.simulation.hunt"
    print(f"seed {caught[0]}: {caught[1]}")


MADE = [mutant for mutant in MUTANTS if mutant.often or mutant.trouble or mutant.chain]


@pytest.mark.parametrize("mutant", MADE, ids=lambda mutant: mutant.name)
def test_it_is_the_bug_that_is_caught_and_not_the_world_that_was_made_for_it(mutant: Mutant) -> None:
    mutant.world(World, KEPT[mutant.name]).run()


def test_a_seed_is_kept_of_every_bug_and_of_nothing_else() -> None:
    assert list(KEPT) == [mutant.name for mutant in MUTANTS]
