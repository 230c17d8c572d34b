"""The tests of a partition's states bite: each deliberate bug is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broken import noticed
from tests.core.kafka.mutants import MUTANTS
from tests.mutation import Edit

TESTS = ("progress", "opening", "scan", "histories", "tables", "expiry", "cuts")
"""The quickest first: one that fails is enough."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_is_noticed(mutant: Edit) -> None:
    assert noticed(mutant, [str(Path(__file__).with_name(f"test_{name}.py")) for name in TESTS])
