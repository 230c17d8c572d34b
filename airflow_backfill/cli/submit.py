"""The commands that need Spark: cancel, recover, repair, prove and explain a build."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import airflow_backfill
from airflow_backfill.builds.ordering import check_errand
from airflow_backfill.cli.signing import signature
from airflow_backfill.cli.store import reader
from airflow_backfill.core.errors import ApplicationFailed, BackfillError, error_in
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.round_size import round_options
from airflow_backfill.operators.package import entry_points
from airflow_backfill.spark.run.phases import REPORT
from airflow_backfill.spark.session.redaction import REDACT
from airflow_backfill.spark_home import ENDS, default_jars


def cancel(options: argparse.Namespace) -> dict[str, Any]:
    """Run the cancel application; its result. The cancel command is already written."""
    return _submit("cancel", options, ["--drop"] if options.drop else _build(options))


def repair(options: argparse.Namespace) -> dict[str, Any]:
    """Run the repair application; its result."""
    check_errand(reader(options), Errand.REPAIR, signature(options))
    return _submit("repair", options, _build(options))


def prove(options: argparse.Namespace) -> dict[str, Any]:
    """Run the prove application; the certificate. The build may be at work."""
    more = [*(["--full"] if options.full else []), "--row-hash", options.row_hash]
    return _submit("prove", options, [*_build(options), *more])


def recover(options: argparse.Namespace) -> dict[str, Any]:
    """Run the recover application; its result. Needs no readable records, only a target of a table backfill."""
    check_errand(reader(options), Errand.RECOVER, signature(options))
    return _submit("recover", options, [] if options.epoch is None else ["--epoch", str(options.epoch)])


def explain(options: argparse.Namespace) -> dict[str, Any]:
    """Run the explain application; the explanation. Nothing is stored."""
    keys = [part for key in options.key for part in ("--key", key)]
    since = [] if options.since is None else ["--since", str(options.since)]
    options.conf += [f"{REDACT}=true"] if options.redact else []
    return _report("explain", options, ["--target", options.target, *_build(options), *keys, *since])


def plan(options: argparse.Namespace, spec: str) -> dict[str, Any]:
    """Run the plan application; the build's summary with the plan's report."""
    return _submit("plan", options, _planned(options, spec))


def dry_run(options: argparse.Namespace, spec: str) -> dict[str, Any]:
    """Run the plan application so that it creates nothing; its checks and its report."""
    return _report("plan", options, ["--target", options.target, *_planned(options, spec), "--explain"])


def _planned(options: argparse.Namespace, spec: str) -> list[str]:
    sizes = round_options(options.round_bytes, options.round_rows)
    return ["--spec", spec, "--lanes", str(options.lanes), *sizes]


def _build(options: argparse.Namespace) -> list[str]:
    return ["--build", reader(options).state().plan.build]


def _submit(application: str, options: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    """Run an application with spark-submit. Returns the result in its outcome, or raises the error in it."""
    builds = reader(options)
    signed = signature(options).to_json() if "why" in options else {}
    me = builds.draw_attempt({"task": application, **signed})
    mine = ["--target", options.target, "--generation", str(me.generation), "--attempt", me.name]
    done = _run(application, options, [*mine, *arguments])
    outcome = builds.control.outcome(me)
    if outcome is None:
        # For others to see; its driver may run elsewhere. The output, which may have values of rows, is for the caller.
        with suppress(BackfillError):
            builds.control.store_outcome(me, {**_lost(application, done, attempt=me.name).to_json(), "presumed": True})
        raise _lost(application, done, done.stderr, attempt=me.name)
    return _result(outcome)


def _report(application: str, options: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    """Run an application that writes nothing, and prints its outcome."""
    done = _run(application, options, arguments)
    line = next((line for line in reversed(done.stdout.splitlines()) if line.startswith(f'{{"{REPORT}": 1, ')), None)
    if line is None:
        raise _lost(application, done, done.stderr)
    return _result(json.loads(line))


def _run(application: str, options: argparse.Namespace, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # The last one wins, so what the command line says comes after what the build was started with.
    settings = {**ENDS, **_settings(options)}
    confs = _with_jars(options, [*(f"{name}={value}" for name, value in settings.items()), *options.conf])
    command = [options.spark_submit, *(part for conf in confs for part in ("--conf", conf))]
    command += ["--jars", options.jars] if options.jars else []
    command += [f"{entry_points()}/{application}.py", *arguments]
    package = str(Path(airflow_backfill.__file__).parents[1])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    try:
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, errors="replace"
        )
    except (OSError, ValueError) as error:
        why = f"cannot be started: {error}; correct the path, or install Spark: pip install 'airflow-backfill[spark]'"
        raise invalid("--spark-submit", options.spark_submit, why) from None


def _settings(options: argparse.Namespace) -> Mapping[str, str]:
    """Spark's settings of the build's newest application that has announced them."""
    return next(reader(options).control.settings(), {})


def _result(outcome: dict[str, Any]) -> dict[str, Any]:
    if outcome["code"] != "OK":
        raise error_in(outcome)
    result: dict[str, Any] = outcome["result"]
    return result


def _lost(application: str, done: subprocess.CompletedProcess[str], said: str = "", **data: str) -> ApplicationFailed:
    why = f"exit status {done.returncode}\n{said.strip()[-500:]}".strip()
    return ApplicationFailed(f"the {application} application ended without an outcome: {why}", **data)


def _with_jars(options: argparse.Namespace, settings: list[str]) -> list[str]:
    """These settings; where none are named, with those that a build needs."""
    if options.jars:
        return settings
    names = dict.fromkeys(setting.partition("=")[0] for setting in settings)
    ours = default_jars(names, binary=options.spark_submit, kafka=VARIABLE in os.environ)
    return [*(f"{name}={value}" for name, value in ours.items()), *settings]
