"""The simulation bites: each deliberate protocol bug breaks an invariant, under a seed that ``hunt`` has found."""

from __future__ import annotations

import pytest

from tests.simulation.hunt import kept_seeds
from tests.simulation.mutant import Mutant, caught_by
from tests.simulation.mutants import MUTANTS

KEPT = kept_seeds()
OTHERS = range(40)
"""Where seeds are looked for if a kept one does not catch any more."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_protocol_bug_is_caught(mutant: Mutant) -> None:
    seed = KEPT[mutant.name]
    caught = caught_by(mutant, range(seed, seed + 1)) or caught_by(mutant, OTHERS)
    assert caught is not None, f"{mutant.name}: nothing noticed it; look for a seed: python -m tests.simulation.hunt"
    print(f"seed {caught[0]}: {caught[1]}")


def test_a_seed_is_kept_of_every_bug_and_of_nothing_else() -> None:
    assert list(KEPT) == [mutant.name for mutant in MUTANTS]
