from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledger.contract import CHECKS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_the_contract_of_a_store(name: str, sample: tuple[Path, dict[str, Any]]) -> None:
    _, expected = sample
    assert expected["contract"][name] == "kept"
