"""A thousand builds that wait in one triggerer: what its processes take of the machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_backfill.core.values.control import Verb
from tests.airflow.without_spark import built, commit_to, make_source, order
from tests.notifications.statsd import serving

BUILDS = 1000
EPOCHS = 30
"""Pending of each build."""
WARM_UP_SECONDS, MEASURED_SECONDS = 60.0, 120.0
MOST_BYTES = 1 << 30
MOST_CORES = 0.5

# A DAG for each, as a fleet has them: the triggerer reads the whole DAG of each trigger.
DAGS = """
from airflow.sdk import DAG
from airflow_backfill.sensors.gate import GateSensor

for n in range({builds}):
    with DAG(f"waits_{{n:04}}", schedule=None):
        GateSensor(task_id="gate", target=f"{folder}/{{n:04}}/target", poke_interval=30, deferrable=True)
"""


def waiting_builds(folder: Path, builds: int) -> None:
    """As many builds, each of a source of its own, which are held while epochs are pending."""
    first = make_source(folder / "source")
    for n in range(builds):
        source, target = folder / f"{n:04}" / "source", folder / f"{n:04}" / "target"
        shutil.copytree(first, source)
        built(source, target, "plan", "snapshot", "consume_log")
        order(target, Verb.HOLD)
        commit_to(source, EPOCHS)


@pytest.mark.soak
def test_a_thousand_waiting_builds_take_a_gigabyte_and_half_a_core(airflow, tmp_path):
    waiting_builds(tmp_path / "lake", BUILDS)
    airflow.write(DAGS.format(builds=BUILDS, folder=tmp_path / "lake"))
    log = airflow.home / "run.log"
    with serving() as server, log.open("w") as output:
        environment = {**airflow.environment, **server.settings(), "AIRFLOW__CORE__DAGS_FOLDER": str(airflow.dags)}
        command = [sys.executable, "-m", "tests.airflow.deferring", str(airflow.dags)]
        subprocess.run(command, env=environment, stdout=output, stderr=output, check=True, timeout=900)
        command = [sys.executable, "-m", "airflow", "triggerer", "--capacity", str(BUILDS), "--skip-serve-logs"]
        triggerer = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            airflow.until(lambda: f"{BUILDS} triggers currently running" in log.read_text(), timeout=600)
            time.sleep(WARM_UP_SECONDS)
            before, begun = _used(triggerer.pid), time.monotonic()
            time.sleep(MEASURED_SECONDS)
            after, took = _used(triggerer.pid), time.monotonic() - begun
        finally:
            triggerer.terminate()
            triggerer.wait(60)
        pending = server.received()["pending_epochs.orders"]
    cores, memory = (after[0] - before[0]) / took, after[1]
    print(f"\n{BUILDS} waiting builds: {cores:.2f} cores, {memory / 2**20:,.0f} MiB")
    assert re.findall(r"(\d+) triggers currently running", log.read_text())[-1] == str(BUILDS)
    assert set(pending) == {f"{EPOCHS}|g"}
    assert memory <= MOST_BYTES
    assert cores <= MOST_CORES


def _used(pid: int) -> tuple[float, int]:
    """Seconds of CPU, and bytes, of a process and all its children."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    times = [one.cpu_times() for one in family]
    return sum(t.user + t.system for t in times), sum(one.memory_full_info().pss for one in family)
