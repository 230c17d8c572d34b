from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.soak]
LIB = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def clock(hours: int) -> dict[str, str]:
    return {"LD_PRELOAD": LIB, "FAKETIME": f"{hours * 3600:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if hours else {}


@pytest.mark.parametrize("hours", [1, -1])
def test_clock(workload: Workload, tmp_path: Path, hours: int) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target)
    with workload.writer():
        planned = apps.result("plan", "--spec", workload.spec(target))
        apps.environment = clock(hours)
        said = apps.run("snapshot", "--round-rows", "5000")
        print("snapshot", said and (said["code"], said.get("message")))
        state = BuildReader(target).state()
        print("pending at", state.lanes[0].record.pending)
        workload.wait_for_epochs(planned["snapshot_epoch"], 20)
        said = apps.run("consume_log", "--max-lag-seconds", "30")
        print("consume_log", said and (said["code"], said.get("message")))
        apps.environment = clock(-hours)
        said = apps.run("catch_up", "--max-lag-seconds", "30")
        print("catch_up", said and (said["code"], said.get("message")))
        apps.environment = clock(0)
        if said["code"] != "OK":
            apps.result("catch_up", "--max-lag-epochs", "60")
        for one in ("verify", "finish"):
            finished = apps.result(one)
        apps.environment = clock(hours)
        followed = apps.result("upstream")
    workload.check(target, finished["epoch"], finished["target_version"])
    workload.check(target, followed["epoch"], followed["target_version"])
