"""A data file of the target that is gone: the build goes on from the version that did not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.core.errors import FileDamaged, HistoryLost
from airflow_backfill.core.values.round_size import RoundSize
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.mark.soak
@pytest.mark.parametrize("damaged", [False, True])
def test_a_build_goes_on_without_a_file_of_the_target(source: Source, tmp_path: Path, damaged: bool) -> None:
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=5)
    build.plan()
    build.first_rounds(1)
    kept = set(Path(build.target).glob("*.parquet"))
    build.first_rounds(2)
    lost = min(set(Path(build.target).glob("*.parquet")) - kept)
    build.snapshot()
    build.apply_log()
    lost.write_bytes(b"nothing") if damaged else lost.unlink()
    with pytest.raises(FileDamaged if damaged else HistoryLost) as raised:
        build.verify()
    assert lost.name in raised.value.message
    assert build.led_back(raised.value).phase.value == "snapshot"
    build.snapshot()
    build.complete()
    build.assert_equal_at(source.head)
