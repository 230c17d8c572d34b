"""Cancelling for good: the command stops what runs, and an application closes the lanes in the target's log."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from typing import Any

import airflow_backfill
from airflow_backfill.core.errors import ApplicationFailed
from airflow_backfill.ledger.reader import BuildReader


def submit_cancel(options: argparse.Namespace) -> dict[str, Any]:
    """The outcome of the cancel application, started with spark-submit."""
    reader = BuildReader(options.target)
    state = reader.state()
    floor = max((barrier.record.generation for barrier in state.known), default=0)
    me = reader.control.draw_attempt({"task": "cancel"}, floor)
    command = [options.spark_submit, *(part for conf in options.conf for part in ("--conf", conf))]
    command += ["--jars", options.jars] if options.jars else []
    command += [_entry_point(), "--target", options.target, "--build", state.plan.build]
    command += ["--generation", str(me.generation), "--attempt", me.name, *(["--drop"] if options.drop else [])]
    package = str(Path(airflow_backfill.__file__).parents[1])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    try:
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    except OSError as error:
        raise ApplicationFailed(f"{options.spark_submit} cannot be started: {error}") from None
    outcome = reader.control.outcome(me)
    if outcome is None or outcome["code"] != "OK":
        said = outcome["message"] if outcome is not None else done.stderr.strip()[-500:]
        raise ApplicationFailed(f"the cancel is ordered, but its application failed: {said}", attempt=me.name)
    result: dict[str, Any] = outcome["result"]
    return result


def _entry_point() -> str:
    package = Path(airflow_backfill.__file__).parent
    installed = package / "spark_apps" / "cancel.py"
    return str(installed if installed.is_file() else package.parent / "spark_apps" / "cancel.py")
