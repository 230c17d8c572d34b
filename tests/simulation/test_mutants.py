"""The simulation bites: each deliberate protocol bug breaks an invariant within a few hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutant import Mutant, caught_by
from tests.simulation.mutants import MUTANTS

SEEDS = range(1500)
RARE = {
    "splits move to other lanes without closing the old ones": 18,
    "a foreign commit between two rounds is not looked at": 22,
    "RESTORE is taken for maintenance": 31,
    "an epoch is claimed by its first part": 24,
    "the number of parts follows the round size of the attempt": 24,
    "a new attempt inherits the rounds that did not contract": 69,
    "a record forgets the lanes that have ended": 80,
    "a record forgets what was announced": 10,
    "a recovery fences nobody": 43,
    "a planner believes its own write": 293,
    "another table in the source's place is read on": 60,
    "ranges are read at the epoch of before, and called newer": 28,
    "an interrupted round is a failed one": 17,
    "a recovery repeats a sequence number": 22,
    "a repair writes nothing": 174,
    "announced beyond the hand-off epoch, for ever": 153,
    "a partition of another lane is not named": 1943,
    "sealed while nobody has judged a partition": 245,
    "what the ingestion reads next is taken for landed": 55,
    "the ingestion's notes are those of now": 23,
}
"""Seeds that caught what few seeds do, tried first."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_protocol_bug_is_caught(mutant: Mutant) -> None:
    first = RARE.get(mutant.name, 0)
    caught = caught_by(mutant, range(first, first + 1)) or caught_by(mutant, SEEDS)
    assert caught is not None, f"{mutant.name}: {len(SEEDS)} seeds noticed nothing"
    print(f"seed {caught[0]}: {caught[1]}")
