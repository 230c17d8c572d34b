"""The commands that need Spark: cancel, recover, repair and prove a build."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from typing import Any

import airflow_backfill
from airflow_backfill.cli.store import reader
from airflow_backfill.core.errors import ApplicationFailed, error_in


def cancel(options: argparse.Namespace) -> dict[str, Any]:
    """Run the cancel application; its result. The cancel command is already written."""
    return _submit("cancel", options, ["--drop"] if options.drop else _build(options))


def repair(options: argparse.Namespace) -> dict[str, Any]:
    """Run the repair application; its result."""
    return _submit("repair", options, _build(options))


def prove(options: argparse.Namespace) -> dict[str, Any]:
    """Run the prove application; the certificate. The build may be at work."""
    more = [*(["--full"] if options.full else []), "--row-hash", options.row_hash]
    return _submit("prove", options, [*_build(options), *more])


def recover(options: argparse.Namespace) -> dict[str, Any]:
    """Run the recover application; its result. Needs no readable records, only a target of a table backfill."""
    reader(options).check_ours()
    return _submit("recover", options, ["--epoch", str(options.epoch)])


def _build(options: argparse.Namespace) -> list[str]:
    return ["--build", reader(options).state().plan.build]


def _submit(application: str, options: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    """Run an application with spark-submit. Returns the result in its outcome, or raises the error in it."""
    builds = reader(options)
    me = builds.draw_attempt({"task": application})
    command = [options.spark_submit, *(part for conf in options.conf for part in ("--conf", conf))]
    command += ["--jars", options.jars] if options.jars else []
    command += [_entry_point(application), "--target", options.target]
    command += ["--generation", str(me.generation), "--attempt", me.name, *arguments]
    package = str(Path(airflow_backfill.__file__).parents[1])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    try:
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    except (OSError, ValueError) as error:
        raise ApplicationFailed(
            f"--spark-submit: {options.spark_submit!r} cannot be started: {error}; correct the path"
        ) from None
    outcome = builds.control.outcome(me)
    if outcome is None:
        said = done.stderr.strip()[-500:]
        raise ApplicationFailed(f"the {application} application ended without an outcome: {said}", attempt=me.name)
    if outcome["code"] != "OK":
        raise error_in(outcome)
    result: dict[str, Any] = outcome["result"]
    return result


def _entry_point(application: str) -> str:
    package = Path(airflow_backfill.__file__).parent
    installed = package / "spark_apps" / f"{application}.py"
    return str(installed if installed.is_file() else package.parent / "spark_apps" / f"{application}.py")
