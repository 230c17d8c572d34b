"""The main job, from nothing: two TPC-H tables built by Airflow and Spark while a writer keeps changing them.

``SCALE`` is TPC-H's scale factor, ``RATE`` the writer's commits per second. With the argument ``prepare`` only the
source tables are made.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demo import tpch
from demo.progress import Follower, account

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
TARGETS = ("orders", "lineitem")


def main() -> int:
    place = Path(os.environ.get("TABLE_BACKFILL_DEMO", ROOT / ".demo")).absolute()
    if sys.argv[1:] == ["prepare"]:
        prepare(place)
        return 0
    rate, begun = os.environ.get("RATE", "1"), time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    airflow = _airflow(place)
    with _running([str(BIN / "airflow"), "db", "migrate"], place, "migrate", airflow):
        prepare(place)
    with _writer(place, rate):
        _run_dags([f"tpch_{table}{role}" for role in ("", "_follow") for table in TARGETS], place, airflow)
    print()
    for table in TARGETS:
        print("\n".join(account(place / "targets" / table)))
    print(f"\nThe writer: {(place / 'writer.log').read_text().splitlines()[-1]}")
    print(f"All of it took {time.monotonic() - begun:.0f} s. Logs of the runs: {place}/*.log")
    return 0


def prepare(place: Path) -> None:
    """The source tables, unless they are there."""
    if (place / "tables" / TARGETS[-1] / "_delta_log").is_dir():
        return
    scale = os.environ.get("SCALE", "1")
    (place / "targets").mkdir(parents=True, exist_ok=True)
    print(f"TPC-H at scale {scale}, as Delta tables with change data feed, in {place}", flush=True)
    tpch.make(place / "raw", float(scale))
    with _running(
        [sys.executable, "-m", "demo.load", str(place / "raw"), str(place / "tables")], place, "load", os.environ
    ):
        pass


def _airflow(place: Path) -> Mapping[str, str]:
    """Airflow of its own: SQLite in the demo's folder, the example DAGs, Spark on this machine."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(place / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "TABLE_BACKFILL_DEMO": str(place),
        "PYSPARK_PYTHON": sys.executable,
    }


def _run_dags(dags: Sequence[str], place: Path, environment: Mapping[str, str]) -> None:
    """Run DAGs side by side to their ends, and show where the builds are meanwhile."""
    print(f"Airflow runs {' and '.join(dags)}:", flush=True)
    followers = [Follower(place / "targets" / table) for table in TARGETS]
    with ExitStack() as stack:
        processes = [stack.enter_context(_dag_run(dag, place, environment)) for dag in dags]
        while any(process.poll() is None for process in processes):
            for follower in followers:
                follower.look()
            time.sleep(1)
    for dag in dags:
        text = (place / f"{dag}.log").read_text()
        if "state=success" not in text:
            sys.exit(f"{dag} failed; the end of its log:\n{text[-4000:]}")


@contextmanager
def _dag_run(dag: str, place: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """`airflow dags test` with a copy of the database of its own: SQLite has one writer at a time."""
    home = place / "airflow"
    shutil.copy(home / "airflow.db", home / f"{dag}.db")
    own = {**environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / dag}.db"}
    command = [str(BIN / "airflow"), "dags", "test", dag]
    with (place / f"{dag}.log").open("w") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT, cwd=place)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _writer(place: Path, rate: str) -> Iterator[None]:
    command = [sys.executable, "-m", "demo.writer", str(place / "raw"), str(place / "tables")]
    command += [str(place / "journal.jsonl"), "--rate", rate]
    with (place / "writer.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@contextmanager
def _running(command: list[str], place: Path, name: str, environment: Mapping[str, str]) -> Iterator[None]:
    """The command at work beside the block; at its end it has succeeded."""
    with (place / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            yield
        finally:
            failed = process.wait()
    if failed:
        sys.exit(f"{name} failed; the end of its log:\n{(place / f'{name}.log').read_text()[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
