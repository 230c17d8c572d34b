from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_backfill.spark.target_table import compaction
from tests.spark.build import Build
from tests.spark.history import Source
from tests.spark.target_table.test_compaction import asked, files, followed, operations

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_rounds(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.hand_off()
    before = files(build)
    asked(build)
    most = 0
    start = time.time()
    with open("/tmp/h/rounds.log", "w", buffering=1) as log:
        for n in range(50):
            most = max(most, followed(build, source, 20))
            print(
                20 * (n + 1),
                "rounds",
                int(time.time() - start),
                "s; at most",
                most,
                "files,",
                files(build),
                "now,",
                before,
                "before,",
                operations(build).count("OPTIMIZE"),
                "optimized",
                file=log,
            )
            assert most < before + 2 * compaction.LEAST_FILES
    build.assert_equal_at(source.head)
    open("/tmp/h/rounds.log", "a").write("equal at the end\n")
