"""What every Spark application of a build does around its task: arguments, session, lock, outcome.

The outcome is written once, whatever happens, and is all that the caller goes by: an exit status says
nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import (
    CancelGoal,
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    Goal,
    RepairGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import BackfillError, Fenced, NotAllowedNow, NotPlanned
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.options import invalid, parsed
from airflow_backfill.core.values.round_size import ROUND_BYTES, ROUND_ROWS, RoundSize
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.session.failure import coded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLLOWING = ("snapshot", "consume_log", "catch_up", "verify", "repair", "finish")
PATIENCE = 10
"""Rounds in a row that may leave more pending than the bound allows."""


LEAST = {"generation": 1, "epoch": 0, "lanes": 1, "lane": 0, "patience": 1, "max_lag_seconds": 0, "max_runtime": 0}
"""The least value of each number on the command line, by its option."""
MOST = 10**15


def parser(application: str) -> Arguments:
    """The command line of an application. It is public: any launcher may call it."""
    arguments = Arguments(prog=application)
    arguments.add_argument("--target", required=True, help="location of the target table")
    arguments.add_argument("--generation", type=int, help="number of the attempt; drawn here if not given")
    arguments.add_argument("--attempt", help="name of the attempt; belongs to --generation")
    if application == "recover":
        arguments.add_argument("--epoch", type=int, required=True, help="at which epoch the target stands")
    elif application == "plan":
        arguments.add_argument("--spec", required=True, help="the spec as JSON")
        arguments.add_argument("--on-existing", default="resume", choices=["resume", "fail", "restart"])
    else:
        arguments.add_argument("--build", help="the build's id; the target's newest one if not given")
    _add_work(application, arguments)
    if application == "finish":
        arguments.add_argument("--unverified", action="store_true")
    if application == "upstream":
        arguments.add_argument("--max-runtime", type=float, help="seconds to follow; one pass if not given")
    if application == "cancel":
        arguments.add_argument("--drop", action="store_true", help="remove what the plan made")
    return arguments


def _add_work(application: str, arguments: argparse.ArgumentParser) -> None:
    """What says how much is done at a time, and how far it goes."""
    if application in ("plan", "snapshot"):
        arguments.add_argument("--lanes", type=int, default=1)
    if application == "snapshot":
        arguments.add_argument("--lane", type=int, default=0)
    if application in ("plan", "snapshot", "consume_log", "catch_up", "upstream"):
        arguments.add_argument("--round-bytes", type=int, default=ROUND_BYTES)
        arguments.add_argument("--round-rows", type=int, default=ROUND_ROWS)
    if application in ("consume_log", "catch_up"):
        arguments.add_argument("--max-lag-epochs", type=int)
        arguments.add_argument("--max-lag-seconds", type=float)
        arguments.add_argument("--patience", type=int, default=PATIENCE)
    if application in ("snapshot", "consume_log", "catch_up", "verify", "repair"):
        help_ = "then go on with this phase and its arguments, e.g. 'verify'; may be repeated"
        arguments.add_argument("--then", action="append", default=[], help=help_)


def main(application: str, argv: Sequence[str] | None = None) -> int:
    """Run one application; 0 if it reached its goal. The outcome is beside the target either way."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        options = parser(application).parse_args(argv)
        Location.parse(options.target)
        spark = session()
        control = ControlFolder.beside(options.target, spark)
        me = _attempt(application, options, spark)
    except BackfillError as error:
        logging.error("nothing was begun: %s", error)
        return 2
    context = spark.sparkContext
    control.announce(me, {"application": context.applicationId, "ui": context.uiWebUrl})
    outcome = attempted(lambda: _work(application, options, spark, me))
    control.store_outcome(me, outcome)
    logging.info("outcome: %s", json.dumps(outcome)[:4000])
    return 0 if outcome["code"] == "OK" else 1


def attempted(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` returned or raised, as the outcome says it."""
    try:
        return {"code": "OK", "result": work()}
    except Exception as error:
        if not isinstance(error, BackfillError):
            traceback.print_exc()
        return coded(error).to_json()


def session() -> SparkSession:
    """The session of an application; what spark-submit set stays."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from airflow_backfill.spark.session.settings import session_confs

    SparkContext._ensure_initialized()  # without its JVM a SparkConf knows nothing of what spark-submit was given
    given = dict(SparkConf().getAll())
    builder = SparkSession.builder
    for name, value in session_confs(cores=os.cpu_count() or 1, given=given).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _attempt(application: str, options: argparse.Namespace, spark: SparkSession) -> Attempt:
    if options.generation is not None and options.attempt:
        return Attempt(options.generation, options.attempt)
    reader = BuildReader(options.target, spark)
    if application != "plan":
        reader.check_ours()
    return reader.draw_attempt({"task": application})


def checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options; InvalidSpec if one of their numbers makes no sense."""
    for name, least in LEAST.items():
        value = getattr(options, name, None)
        if value is not None and not least <= value <= MOST:
            raise invalid(name, value, f"must be at least {least} and at most {MOST}")
    if getattr(options, "lane", 0) >= getattr(options, "lanes", 1):
        raise invalid("lane", options.lane, f"lanes are counted from 0, and there are {options.lanes}")
    return options


def _work(application: str, options: argparse.Namespace, spark: SparkSession, me: Attempt) -> dict[str, Any]:
    from airflow_backfill.spark.run.interpreter import Shell
    from airflow_backfill.spark.run.planner import OnExisting, Planner, drop_target
    from airflow_backfill.spark.session.lock import hold_lock

    checked(options)
    if application == "plan":
        spec = BackfillSpec.parse(parsed(options.spec))
        hold_lock(spark, spec.target)
        state, report = Planner(spark, spec, options.lanes, me, _size(options)).plan(OnExisting(options.on_existing))
        return {**summarize(state), "report": report}
    hold_lock(spark, options.target)
    shell = Shell(spark, options.target)
    if application == "recover":
        return summarize(shell.run(recover(me, options.epoch)))
    if application == "cancel" and options.drop:
        result = ended(lambda: work_through(application, options, shell, me))
        drop_target(spark, options.target)
        return {**result, "dropped": [options.target]}
    state = work_through(application, options, shell, me)
    result = summarize(state)
    return result


def ended(cancel: Callable[[], BuildState]) -> dict[str, Any]:
    """The summary of the cancelled build; if it cannot be read, why: it may be dropped all the same."""
    try:
        return summarize(cancel())
    except BackfillError as error:
        if error.retry or isinstance(error, (Fenced, NotAllowedNow, NotPlanned)):
            raise
        logging.warning("the build is dropped as it is: %s", error)
        return {"unreadable": error.to_json()}


def work_through(application: str, options: argparse.Namespace, shell: Any, me: Attempt) -> BuildState:
    """Reach the application's goal, then those of ``--then`` for as long as that goes well. What does not go well is
    left to the task whose phase it is: that task will meet the same error, and say so.
    """
    then = [following(line, options.target) for line in getattr(options, "then", ())]
    state = reach(_task(application, options, shell), shell, me, options.build)
    for phase, its in then:
        try:
            state = reach(_task(phase, its, shell), shell, me, state.plan.build)
        except Exception:
            logging.warning("%s is left to its own task", phase, exc_info=True)
            break
    return state


def following(line: str, target: str) -> tuple[str, argparse.Namespace]:
    """Phase and options that one ``--then`` says."""
    try:
        phase, *words = shlex.split(line)
    except ValueError as error:
        raise invalid("then", line, f"is not a phase and its arguments ({error})") from None
    if phase not in FOLLOWING:
        raise invalid("then", line, f"must begin with one of {', '.join(FOLLOWING)}")
    return phase, checked(parser(phase).parse_args(["--target", target, *words]))


def reach(task: Goal, shell: Any, me: Attempt, build: str | None) -> BuildState:
    """Work until the task's goal is reached; beside it the epochs of a chain are announced."""
    work = run(task, me, build)
    if not (task.announces and shell.reader.state(build).rearranging):
        state: BuildState = shell.run(work)
        return state
    from airflow_backfill.core.state.drive import drive
    from airflow_backfill.spark.run.announcing import announcing

    with announcing(shell, me, build) as answer:
        return drive(work, answer)


def _task(application: str, options: argparse.Namespace, shell: Any) -> Goal:
    match application:
        case "snapshot":
            return SnapshotGoal(options.lane, options.lanes, _size(options))
        case "consume_log":
            return ConsumeLogGoal(_size(options), _max_lag(options), options.patience)
        case "catch_up":
            return CatchUpGoal(_size(options), _max_lag(options), options.patience)
        case "verify":
            return VerifyGoal()
        case "repair":
            return RepairGoal()
        case "finish":
            return FinishGoal(verified=not options.unverified)
        case "upstream":
            return _upstream(options, shell)
        case "cancel":
            return CancelGoal()
    raise ValueError(f"no such application: {application}")


def _upstream(options: argparse.Namespace, shell: Any) -> Goal:
    if options.max_runtime is not None:
        return UpstreamGoal(_size(options), until=time.time_ns() // 1_000_000 + int(options.max_runtime * 1000))
    state: BuildState = shell.reader.state(options.build)
    from airflow_backfill.ledger.open_source import watch_source

    return UpstreamGoal(_size(options), upto=watch_source(state.plan, shell.spark).view(state.reached).head)


def _size(options: argparse.Namespace) -> RoundSize:
    return RoundSize(options.round_bytes, options.round_rows)


def _max_lag(options: argparse.Namespace) -> MaxLag:
    seconds = options.max_lag_seconds
    return MaxLag(epochs=options.max_lag_epochs, age=None if seconds is None else int(seconds * 1000))
