"""Builds that an older version of the package left half-way: this one finishes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from tests.golden.archive import ARCHIVES, locked, unpack
from tests.spark.build import Build
from tests.spark.conftest import PLAIN
from tests.spark.history import Source

pytestmark = pytest.mark.spark

BUILDS = sorted(str(archive.relative_to(ARCHIVES)) for archive in ARCHIVES.rglob("*.tar.gz"))


class Golden(Build):
    """A build that goes on where its archive ends."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        target = folder / "target"
        self.begun = BuildReader(str(target)).state()
        spec = self.begun.plan.spec.to_json()
        super().__init__(Source(spark, str(folder / "source"), PLAIN), target, self.begun.layout.lanes, **spec)

    def attempt(self) -> Attempt:
        return self.reader.draw_attempt({"task": "golden"})

    def change(self, new: int) -> None:
        """Epochs that the version before knew nothing of."""
        self.source.append(new, new + 10)
        if self.spec.key:
            self.source.sql("UPDATE $table SET $name = 'newer', $n = 7 WHERE $id % 10 = 7")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with locked() as empty:
        yield empty


@pytest.mark.parametrize("archive", BUILDS)
def test_a_half_built_table_is_finished(archive: str, place: Path, spark: SparkSession) -> None:
    unpack(ARCHIVES / archive, place)
    name = Path(archive).name.removesuffix(".tar.gz")
    golden = Golden(spark, place / name)
    assert stopped(golden.begun) == STOPPED[name]
    golden.change(8000)
    handoff = golden.hand_off().handoff
    assert handoff is not None
    golden.assert_equal_at(golden.begun.handoff or golden.source.head)
    golden.change(9000)
    assert golden.upstream().phase is Phase.UPSTREAM
    golden.assert_equal_at(golden.source.head)
