"""Builds that an older version of the package left half-way: this one finishes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from tests.golden.archive import ARCHIVES, locked, unpack
from tests.spark.build import Build
from tests.spark.history import PLAIN, Source

pytestmark = pytest.mark.spark

IN_EACH_RUN = "in_epoch.tar.gz"
"""The others are finished in the soak; tests/core/test_golden_documents.py reads their documents in each run, too."""
BUILDS = [
    pytest.param(str(archive.relative_to(ARCHIVES)), marks=[] if archive.name == IN_EACH_RUN else pytest.mark.soak)
    for archive in sorted(ARCHIVES.rglob("*.tar.gz"))
]


class Golden(Build):
    """A build that goes on where its archive ends."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        target = folder / "target"
        self.begun = BuildReader(str(target)).state()
        spec = self.begun.plan.spec.to_json()
        del spec["source"], spec["target"]
        super().__init__(Source(spark, str(folder / "source"), PLAIN), target, self.begun.layout.lanes, **spec)

    def attempt(self) -> Attempt:
        return self.reader.draw_attempt({"task": "golden"})

    def change(self, new: int) -> None:
        """Epochs that the version before knew nothing of."""
        self.source.append(new, new + 10)
        if self.spec.key:
            self.source.sql("UPDATE $table SET $name = 'newer', $n = 7 WHERE $id % 10 = 7")


STOPPED = {
    "in_snapshot": (Phase.SNAPSHOT, (Consumed(1), Consumed(1), AtFile(0), AtFile(0)), Control()),
    "in_epoch": (Phase.CONSUME_LOG, (InEpoch(6, done=1, of=4),) * 4, Control()),
    "followed": (Phase.UPSTREAM, (Consumed(9),) * 4, Control()),
    "arrangement": (Phase.SNAPSHOT, (Consumed(5), Consumed(5), Consumed(5), AtKey(5, 2, ("1099L",))), Control()),
    "chain": (Phase.SNAPSHOT, (Consumed(1), AtFile(0), AtFile(0), AtFile(0)), Control(1, rate=5)),
    "chain_followed": (Phase.UPSTREAM, (Consumed(3),) * 4, Control()),
    "lanes": (Phase.SNAPSHOT, (Consumed(1), Consumed(1), Consumed(1), AtFile(0)), Control()),
    "held_back": (
        Phase.SNAPSHOT,
        (Consumed(1), AtFile(0), AtFile(0), AtFile(0)),
        Control(2, paused=True, rate=30, byte_rate=1_000_000),
    ),
    "cancelled": (Phase.CANCELLED, (Consumed(1),) * 4, Control(1, cancelled=True)),
    "repaired": (Phase.CATCH_UP, (Consumed(5),) * 4, Control()),
}
"""Where each build was when its application was killed."""


@pytest.mark.parametrize("archive", BUILDS)
def test_a_half_built_table_is_finished(archive: str, spark: SparkSession) -> None:
    name = Path(archive).name.removesuffix(".tar.gz")
    with locked() as place:
        unpack(ARCHIVES / archive, place)
        golden = Golden(spark, place / name)
        state = golden.begun
        assert (state.phase, state.positions, state.control) == STOPPED[name]
        golden.change(8000)
        finished = golden.hand_off()
        # A hand-off that was pinned or committed stays where it is.
        assert finished.handoff == (golden.source.head if state.handoff is None else state.handoff)
        assert finished.applied is not None
        golden.assert_equal_at(finished.applied)
        golden.change(9000)
        assert golden.upstream().phase is Phase.UPSTREAM
        golden.assert_equal_at(golden.source.head)
