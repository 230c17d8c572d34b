from __future__ import annotations

import pytest

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.round_size import RoundSize

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cores", "mib", "rows"), [(1, 2_048, 20_000_000), (8, 2_048, 20_000_000), (64, 16_384, 160_000_000)]
)
def test_a_round_grows_with_the_cores(cores: int, mib: int, rows: int) -> None:
    assert RoundSize.on(cores) == RoundSize(mib * MIB, rows)


def test_what_is_given_stays() -> None:
    assert RoundSize.on(64, bytes=1) == RoundSize(1, 160_000_000)
    assert RoundSize.on(64, rows=7) == RoundSize(16_384 * MIB, 7)


@pytest.mark.parametrize("given", [{"bytes": 0}, {"rows": -1}, {"rows": True}, {"bytes": 1.5}])
def test_what_is_no_size_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(InvalidSpec, match="must be a whole number"):
        RoundSize.on(1, **given)
