"""The worlds bite, and so does the comparison of the two forms: each deliberate bug is noticed."""

from __future__ import annotations

import pytest

from tests.core.kafka.mutants import CUTS, WORLDS, Mutant, caught_by, told_apart

SEEDS = range(1_500)
RARE = {
    "lost records are passed over": 109,
    "nothing to read means finished, also later": 617,
    "a late ingestion is taken for proof": 141,
}
"""Seeds that caught what few seeds do, tried first."""


@pytest.mark.parametrize("mutant", WORLDS, ids=lambda mutant: mutant.name)
def test_a_bug_is_caught_by_the_worlds(mutant: Mutant) -> None:
    first = RARE.get(mutant.name, 0)
    caught = caught_by(mutant, range(first, first + 1)) or caught_by(mutant, SEEDS)
    assert caught is not None, f"{mutant.name}: {len(SEEDS)} seeds noticed nothing"
    print(f"seed {caught[0]}: {caught[1]}")


@pytest.mark.parametrize("mutant", CUTS, ids=lambda mutant: mutant.name)
def test_a_bug_tells_the_two_forms_apart(mutant: Mutant) -> None:
    assert told_apart(mutant, range(300))
