"""The demo: Airflow and Spark build two TPC-H tables while a writer keeps changing their sources.

``SCALE`` is TPC-H's scale factor, ``RATE`` the writer's commits per second, ``STRATEGY`` the builds' strategy. With the
argument ``prepare`` it only creates the source tables.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from demo import tpch
from demo.airflow import Airflow
from demo.process import ROOT, beside, end_in_order, throughout
from demo.progress import account

TABLES = ("orders", "lineitem")


def main() -> int:
    end_in_order()
    place = Path(os.environ.get("TABLE_BACKFILL_DEMO", ROOT / ".demo")).absolute()
    if sys.argv[1:] == ["prepare"]:
        prepare(place)
        return 0
    begun = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    airflow = Airflow(place)
    with airflow.prepared():
        prepare(place)
    targets = [place / "targets" / table for table in TABLES]
    with throughout(_writer(place), place / "writer.log"):
        airflow.run([f"tpch_{table}{role}" for role in ("", "_follow") for table in TABLES], targets)
    print()
    for target in targets:
        print("\n".join(account(target)))
    print(f"\nThe writer: {(place / 'writer.log').read_text().splitlines()[-1]}")
    print(f"The demo took {time.monotonic() - begun:.0f} s. Logs: {place}/*.log")
    return 0


def prepare(place: Path) -> None:
    """Create the source tables, unless they exist."""
    if (place / "tables" / TABLES[-1] / "_delta_log").is_dir():
        return
    scale = os.environ.get("SCALE", "1")
    (place / "targets").mkdir(parents=True, exist_ok=True)
    print(f"TPC-H at scale {scale}, as Delta tables with change data feed, in {place}", flush=True)
    tpch.make(place / "raw", float(scale))
    load = [sys.executable, "-m", "demo.load", str(place / "raw"), str(place / "tables")]
    with beside(load, place / "load.log"):
        pass


def _writer(place: Path) -> list[str]:
    files = [str(place / name) for name in ("raw", "tables", "journal.jsonl")]
    return [sys.executable, "-m", "demo.writer", *files, "--rate", os.environ.get("RATE", "1")]


if __name__ == "__main__":
    sys.exit(main())
