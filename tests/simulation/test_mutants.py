"""The simulation bites: each deliberate protocol bug breaks an invariant within a few hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, caught_by

SEEDS = range(1500)
RARE = {
    "any attempt may decide on a layout": 406,
    "a cancel is only looked at when an attempt starts": 314,
    "a repair writes nothing": 174,
    "announced beyond the hand-off epoch, for ever": 153,
}
"""Seeds that caught what few seeds do, tried first."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_protocol_bug_is_caught(mutant: Mutant) -> None:
    first = RARE.get(mutant.name, 0)
    caught = caught_by(mutant, range(first, first + 1)) or caught_by(mutant, SEEDS)
    assert caught is not None, f"{mutant.name}: {len(SEEDS)} seeds noticed nothing"
    print(f"seed {caught[0]}: {caught[1]}")
