"""Each measure of what grows still runs: at sizes that take a moment, where a bench takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.what_grows import MEASURES, silent

FEW = 12


@pytest.mark.parametrize("name", MEASURES)
def test_what_grows_can_be_measured(name: str, tmp_path: Path) -> None:
    *_, measure = MEASURES[name]
    with silent():
        costs = measure(tmp_path, FEW)
    assert any(digit in costs for digit in "123456789"), costs
