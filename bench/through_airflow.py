"""A build of 10,000 rows whose source is idle, from its trigger in a real Airflow to the hand-off."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median

from demo.standalone import standalone

ROWS = 10_000
HEAD = ["| what | s | goal |", "|---|---|---|"]
DAG = "tpch_orders"


def through_airflow(folder: Path, rounds: int) -> list[str]:
    """The example DAG of TPC-H's orders, with Spark on this machine; each run builds a new target."""
    place, took = folder / "airflow", []
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with standalone(place, SCALE=str(ROWS / 1_500_000), RATE="0.0001") as airflow:
        airflow.wait("DAGs", lambda: DAG in airflow.dags())
        for _ in range(rounds):
            for left in (place / "demo" / "targets").glob("orders*"):
                shutil.rmtree(left)
            begun = time.perf_counter()
            run = airflow.trigger(DAG)
            airflow.wait(f"end of {DAG}", lambda run=run: airflow.state(DAG, run) in ("success", "failed"))
            took.append(time.perf_counter() - begun)
            states = airflow.states(DAG, run)
            assert set(states.values()) == {"success"}, states
            print(f"  through Airflow {took[-1]:.1f} s", flush=True)
    runs = ", ".join(f"{seconds:.1f}" for seconds in took)
    return [
        *HEAD,
        f"| {ROWS:,} rows of an idle source, from trigger to finish | {median(took):.1f} ({runs}) | at most 30 |",
    ]
