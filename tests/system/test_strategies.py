"""Builds by the other strategies while the source keeps changing, killed over and over: the end is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.core.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL = ("--round-rows", "3000")
THEN = ("consume_log --max-lag-epochs 60", "catch_up --max-lag-epochs 60", "verify", "finish")
ALL = tuple(word for phase in THEN for word in ("--then", phase))
"""The snapshot, and everything after it, in one application."""


@pytest.mark.parametrize("strategy", ["arrangement", "chain"])
def test_a_build_goes_on_after_each_kill(workload: Workload, tmp_path: Path, strategy: str) -> None:
    """None of the applications begins where one before it began."""
    target = str(tmp_path / "target")
    apps, stood = Applications(target), list[tuple[Phase, int]]()
    with workload.writer():
        planned = apps.result("plan", "--spec", workload.spec(target, strategy=strategy))
        # The first commit of each is its claim.
        for crash in ("after_commit:2:python", "before_commit:3:jvm", "before_verify:1:group"):
            outcome = apps.run("snapshot", *SMALL, *ALL, crash=crash)
            assert outcome is None or outcome["code"] != "OK", crash
            state = BuildReader(target).state()
            stood.append((state.phase, state.totals.snapshot_rows))
        finished = apps.result("snapshot", *SMALL, *ALL)

    assert [phase for phase, _ in stood] == [Phase.SNAPSHOT, Phase.SNAPSHOT, Phase.CATCH_UP]
    read = [rows for _, rows in stood]
    assert 0 < read[0] < read[1] < read[2]
    assert finished["epoch"] > planned["snapshot_epoch"]
    workload.check(target, finished["epoch"], finished["target_version"])
    workload.check_each_epoch_once(target, planned["snapshot_epoch"], finished["epoch"])
