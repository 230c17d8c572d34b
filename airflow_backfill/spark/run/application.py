"""What every Spark application of a build does around its task: arguments, session, lock, outcome.

The outcome is written once, whatever happens, and is all that the caller goes by: an exit status says
nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import (
    BackfillError,
    Fenced,
    InvalidSpec,
    NotAllowedNow,
    NotPlanned,
    SparkIncomplete,
    TargetDiverged,
)
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.options import parsed
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run.next_phases import Reach, after_plan, following, work_through
from airflow_backfill.spark.run.phases import EXPLAIN, REPORT, checked, parser, size
from airflow_backfill.spark.run.sign_of_life import signs_of_life
from airflow_backfill.spark.run.watchdog import watched
from airflow_backfill.spark.session.carried import carried
from airflow_backfill.spark.session.cost import Costs
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.redaction import REDACT, redacts, shows_no_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill.spark.run.interpreter import Shell

_API = "spark.api.mode"


def main(application: str, argv: Sequence[str] | None = None) -> int:
    """Run one application; 0 if it reached its goal. The outcome is beside the target either way."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        options = parser(application).parse_args(argv)
        Location.parse(options.target)
        spark = session()
        if application == EXPLAIN and not options.attempt:
            return reported(lambda: explain(options, spark))
        if application == "plan" and options.explain:
            return reported(lambda: dry_run(options, spark))
        me = _attempt(application, options, spark)
        control, costs = ControlFolder.beside(options.target, spark), Costs(spark)
    except SparkIncomplete as error:
        logging.error("nothing was begun: %s", error)
        _store_without_spark(options, error)
        return 2
    except BackfillError as error:
        logging.error("nothing was begun: %s", error)
        return 2
    try:
        with watched(spark) as stopped:
            outcome = concluded(
                *(control, me, started(spark)),
                lambda: work(application, options, spark, me, stopped, costs),
                costs.so_far,
            )
    except BackfillError as error:
        logging.error("the outcome cannot be stored: %s", error)
        return 2
    return 0 if outcome["code"] == "OK" else 1


def reported(work: Callable[[], dict[str, Any]]) -> int:
    """Do the work of an application that writes nothing. Its outcome is the last line of standard output."""
    outcome = attempted(work)
    print(json.dumps({REPORT: 1, **outcome}), flush=True)
    return 0 if outcome["code"] == "OK" else 1


def explain(options: argparse.Namespace, spark: SparkSession) -> dict[str, Any]:
    """What there is to say about one key; see ``Explanation`` and ``TopicExplanation``."""
    from airflow_backfill.spark.explain.explanation import Explanation
    from airflow_backfill.spark.explain.topic_explanation import TopicExplanation
    from airflow_backfill.spark.run.interpreter import Shell

    shell = Shell(spark, options.target)
    shell.reader.check_ours()
    if any(map(shows_no_values, shell.reader.control.settings())):
        spark.conf.set(REDACT, "true")  # an application of the build hides values, so this one does
    state = shell.run(load(options.build))
    plan = state.plan
    if not plan.explains:
        raise InvalidSpec(
            "explain: the build has no key, so the changes of a row cannot be told apart; run `table-backfill prove "
            f"{plan.spec.target}` to compare the target with its source",
            field="--key",
        )
    explanation = TopicExplanation if plan.splits.landing else Explanation
    return explanation(spark, shell.reader, state).of(options.key, options.since)


def kept(control: ControlFolder, me: Attempt, found: Mapping[str, Any]) -> dict[str, Any]:
    """Keep an explanation beside the target, and return what may be told without the values of the row."""
    control.store_explanation(me, found)
    return {**{name: found[name] for name in ("target", "build", "verdict")}, "explanation": me.generation}


def dry_run(options: argparse.Namespace, spark: SparkSession) -> dict[str, Any]:
    """What a plan would do; see ``DryRun``."""
    from airflow_backfill.spark.run.dry_run import DryRun

    checked(options)
    spec = BackfillSpec.parse(parsed(options.spec))
    return DryRun(spark, spec, options.lanes, Attempt(0, ""), size(options, spark)).explain()


def started(spark: SparkSession) -> dict[str, Any]:
    """What is announced of an attempt in this Spark."""
    context = spark.sparkContext
    conf = carried(dict(context.getConf().getAll()))
    return {"application": context.applicationId, "ui": context.uiWebUrl, "conf": conf}


def concluded(
    control: ControlFolder,
    me: Attempt,
    started: Mapping[str, Any],
    work: Callable[[], dict[str, Any]],
    cost: Callable[[], Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Announce the attempt, do its work with signs of life meanwhile, and store the outcome, which is returned.
    ``cost``: what it has cost so far, if that can be told from what others do in the same Spark.
    """
    with signs_of_life(control, me, started, cost=cost):
        outcome = attempted(work)
    logging.info("outcome: %s", json.dumps(outcome)[:4000])
    control.store_outcome(me, outcome)
    return outcome


def attempted(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` returned or raised, as the outcome says it."""
    try:
        return {"code": "OK", "result": work()}
    except Exception as error:
        if not isinstance(error, BackfillError) and not redacts():
            traceback.print_exc()
        return coded(error).to_json()


def session() -> SparkSession:
    """The session of an application; what spark-submit set stays. SparkIncomplete if the jars do not fit it, or if it
    would be a client of Spark Connect.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from airflow_backfill.spark.session.jars import check_jars
    from airflow_backfill.spark.session.s3_log_store import install
    from airflow_backfill.spark.session.settings import hadoop_confs, session_confs

    SparkContext._ensure_initialized()  # without its JVM a SparkConf knows nothing of what spark-submit was given
    given = dict(SparkConf().getAll())
    if given.get(_API, "classic").lower() != "classic":
        raise SparkIncomplete(
            f"{_API} is {given[_API]}: a build works inside of Spark's driver, where a client of Spark Connect is not; "
            f"set {_API} to classic in the tasks' conf, then clear the task",
            option=_API,
        )
    builder = SparkSession.builder
    for name, value in session_confs(hadoop_confs(SparkContext._jvm) | given).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    check_jars(spark)
    install(spark)
    # A path without a scheme is a file, as for Airflow's side, whatever Hadoop is configured for.
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.defaultFS", "file:///")
    return spark


def _store_without_spark(options: argparse.Namespace, error: BackfillError) -> None:
    """Store the outcome where Spark cannot: its stores need Delta, too. If this fails, only the log has the error."""
    if not getattr(options, "attempt", None):
        return
    try:
        ControlFolder.beside(options.target).store_outcome(
            Attempt(options.generation, options.attempt), error.to_json()
        )
    except Exception:
        logging.warning("the outcome cannot be stored without Spark", exc_info=True)


def _attempt(application: str, options: argparse.Namespace, spark: SparkSession) -> Attempt:
    if options.generation is not None and options.attempt:
        return Attempt(options.generation, options.attempt)
    reader = BuildReader(options.target, spark)
    if application != "plan":
        reader.check_ours()
    return reader.draw_attempt({"task": application})


def work(
    application: str,
    options: argparse.Namespace,
    spark: SparkSession,
    me: Attempt,
    stopped: Event | None = None,
    costs: Costs | None = None,
) -> dict[str, Any]:
    """Do an attempt's work and return its result. Once ``stopped`` is set, it ends soon, with ApplicationFailed.
    ``costs``: of this application, if they can be told from what others do in the same Spark.
    """
    from airflow_backfill.spark.preflight.two_writers import check_commits
    from airflow_backfill.spark.run.interpreter import Shell
    from airflow_backfill.spark.run.planner import OnExisting, Planner
    from airflow_backfill.spark.session.lock import locked
    from airflow_backfill.spark.session.removal import drop_target, table_at

    def reaching(shell: Shell) -> Reach:
        return lambda goal, build: reach(goal, shell, me, build)

    checked(options)
    rounds = size(options, spark)
    if application == "plan":
        spec, then = BackfillSpec.parse(parsed(options.spec)), following(options)
        with locked(spark, spec.target, stopped):
            state, report = Planner(spark, spec, options.lanes, me, rounds).plan(OnExisting(options.on_existing))
            shell = Shell(spark, spec.target, stopped, rounds.bytes, me, costs)
            state = after_plan(state, then, shell, reaching(shell))
        return {**summarize(state), "report": report}
    if application == EXPLAIN:
        return kept(ControlFolder.beside(options.target, spark), me, explain(options, spark))
    shell = Shell(spark, options.target, stopped, rounds.bytes, me, costs)
    if application == "prove":
        # No lock: it writes nothing to the target, whose build may be at work.
        certificate = shell.run(prove(options.build, RowHash(options.row_hash), full=options.full))
        shell.forget_parts()
        return certificate.to_json()

    check_commits(spark, options.target)

    # Lanes take turns, and the turn of one lasts as long as it commits, in a pause too.
    sign = shell.reader.log.head if application == "snapshot" and options.lanes > 1 else None
    with locked(spark, options.target, stopped, sign=sign):
        if application == "recover":
            return summarize(shell.run(recover(me, options.epoch)))
        if application == "cancel" and options.drop:
            table = table_at(spark, options.target)
            result = ended(shell.reader.control, lambda: work_through(application, options, shell, reaching(shell)))
            drop_target(spark, options.target, table)
            return {**result, "dropped": [options.target]}
        return summarize(work_through(application, options, shell, reaching(shell)))


def ended(control: ControlFolder, cancel: Callable[[], BuildState]) -> dict[str, Any]:
    """The summary of the cancelled build; if it cannot be read, why: it may be dropped all the same. Nothing if its
    drop has begun.
    """
    if control.dropping:
        return {}
    try:
        return summarize(cancel())
    except BackfillError as error:
        if error.retry or isinstance(error, (Fenced, NotAllowedNow, NotPlanned)):
            raise
        logging.warning("the build is dropped as it is: %s", error)
        return {"unreadable": error.to_json()}


def reach(goal: Goal, shell: Shell, me: Attempt, build: str | None) -> BuildState:
    """Work until the goal is reached; beside it the epochs of a chain are announced."""
    work = run(goal, me, build)
    try:
        if not (goal.announces and shell.reader.state(build).rearranging):
            return shell.run(work)
        from airflow_backfill.spark.run.announcing import announcing

        with announcing(shell, me, build) as answer:
            return drive(work, answer)
    except TargetDiverged:
        shell.reader.check_ours()  # another table in its place is not to be restored
        raise
