"""Builds by the other strategies while the source keeps changing, killed over and over, with other cores each time: the
end is equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications, all_phases
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SMALL = ("--round-rows", "3000")
ALL = all_phases(lag_epochs=60)

KILLS = {
    # The first commit of each is its claim.
    "arrangement": ("after_commit:2:python", "before_commit:3:jvm", "before_verify:1:group"),
    # Announcements are commits, too.
    "chain": ("after_commit:4:python", "before_commit:4:jvm", "before_verify:1:group"),
}


@pytest.mark.parametrize("strategy", ["arrangement", "chain"])
def test_a_build_goes_on_after_each_kill(workload: Workload, tmp_path: Path, strategy: str) -> None:
    target = str(tmp_path / "target")
    apps, states = Applications(target), list[BuildState]()
    with workload.writer():
        apps.result("plan", "--spec", workload.spec(target, strategy=strategy))
        for cores, crash in enumerate(KILLS[strategy], 1):
            apps.cores = cores
            outcome = apps.run("snapshot", *SMALL, *ALL, crash=crash)
            assert outcome is None or outcome["code"] != "OK", crash
            states.append(BuildReader(target).state())
        finished = apps.result("snapshot", *SMALL, *ALL)

    assert [state.phase for state in states] == [Phase.SNAPSHOT, Phase.SNAPSHOT, Phase.CATCH_UP]
    read = [state.totals.snapshot_rows for state in states]
    assert read == sorted(read) and read[0] < read[-1]
    workload.check(target, finished["epoch"], finished["target_version"])
