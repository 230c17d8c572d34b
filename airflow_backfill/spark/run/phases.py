"""The applications of a build: the options of each on its public command line, and the goal that it works on."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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
from airflow_backfill.core.gates.gate import Verdict, look
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.gates.window import Window
from airflow_backfill.core.state.effect import Asks, Effect
from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.bound import PATIENCE_ROUNDS
from airflow_backfill.core.values.options import MOST, invalid, share
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import watch_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill.ledger.reader import BuildReader

LEAST = {"generation": 1, "epoch": 0, "lanes": 1, "lane": 0, "patience": 1, "max_lag_seconds": 0, "max_runtime": 0}
"""The minimum of each numeric option."""


_Option = tuple[str, Mapping[str, Any]]
"""An option of a command line, with argparse's settings."""


def _option(flag: str, **settings: Any) -> _Option:
    return flag, settings


_PLACE = (
    _option("--target", required=True, help="location of the target table"),
    _option("--generation", type=int, help="number of the attempt; drawn by the application if not given"),
    _option("--attempt", help="name of the attempt; belongs to --generation"),
)
_BUILD = _option("--build", help="id of the build; the target's newest build if not given")
_LANES = _option("--lanes", type=int, default=1, help="number of tasks that read the snapshot")
_SIZE = (
    _option(
        "--round-bytes", type=int, help="limit for the bytes of a round; by default 256 MiB a core, at least 2 GiB"
    ),
    _option(
        "--round-rows",
        type=int,
        help="limit for the rows of a round; by default 2.5 million a core, at least 20 million",
    ),
)
_BOUND = (
    _option("--max-lag-epochs", type=int, help="maximum number of pending epochs"),
    _option("--max-lag-seconds", type=float, help="maximum age of the oldest pending epoch, in seconds"),
)
_LAG = (
    *_BOUND,
    _option(
        "--patience",
        type=int,
        default=PATIENCE_ROUNDS,
        help="rounds in a row that may fail to lower the number of pending epochs",
    ),
)
_ROW_HASH = _option(
    "--row-hash",
    default=RowHash.TYPED.value,
    choices=[by.value for by in RowHash],
    help="how rows are hashed: sha256 takes longer, and nobody can make rows that collide",
)
_SAMPLE = _option(
    "--sample",
    type=float,
    default=0.0,
    help="share of the source to read again, or of both sides to compare, from 0 to 1",
)
_FULL = _option("--full", action="store_true", help="read the whole source again, whatever kind of proof the plan has")
_WINDOW = _option(
    "--window", nargs=3, metavar=("START", "STOP", "ZONE"), help="when the hand-off may begin, e.g. 22:00 06:00 UTC"
)
_THEN = _option(
    "--then",
    action="append",
    default=[],
    help="next phase in the same application, with its arguments, e.g. 'verify'; repeatable",
)


class Interpreter(Protocol):
    """Answers effects: with Spark, or without it in tests of DAGs."""

    reader: BuildReader

    @property
    def spark(self) -> SparkSession | None: ...

    def answer(self, effect: Effect[Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Application:
    """One entry point of ``spark_apps``."""

    options: tuple[_Option, ...]
    goal: Callable[[argparse.Namespace, Interpreter], Goal] | None = None
    """The goal that it works on until that is committed; None if it is not a phase of a build."""
    follows: bool = False
    """Whether it may follow another phase in the same application (``--then``)."""


def size(options: argparse.Namespace, spark: SparkSession | None = None) -> RoundSize:
    """The size of a round by the options, and by the cores of the cluster where they say nothing."""
    cores = 1
    if spark is not None:
        from airflow_backfill.spark.session.settings import cluster_cores

        cores = cluster_cores(spark)
    return RoundSize.on(cores, *(getattr(options, name, None) for name in ("round_bytes", "round_rows")))


def _max_lag(options: argparse.Namespace) -> MaxLag:
    seconds = options.max_lag_seconds
    return MaxLag(epochs=options.max_lag_epochs, age=None if seconds is None else int(seconds * 1000))


def _upstream(options: argparse.Namespace, shell: Interpreter) -> Goal:
    if options.max_runtime is not None:
        until = now_ms() + int(options.max_runtime * 1000)
        return UpstreamGoal(size(options, shell.spark), until=until)
    state = shell.reader.state(options.build)
    head = watch_source(state.plan, shell.spark).glance(state.reached).head
    return UpstreamGoal(size(options, shell.spark), upto=head)


REPORT = "airflow_backfill_report"
"""The first field of an outcome that is printed."""
EXPLAIN = "explain"
"""Without an attempt it prints its outcome, and stores none: it holds values of rows."""
GATE = "gate"
"""Follows a phase, but has no entry point: phases after it run only if the gate is open."""

APPLICATIONS: Mapping[str, Application] = {
    "plan": Application(
        (
            _option("--spec", required=True, help="the spec as JSON"),
            _option(
                "--on-existing",
                default="resume",
                choices=["resume", "fail", "restart"],
                help="what to do if the build exists",
            ),
            _option("--explain", action="store_true", help="only check and rehearse; creates and stores nothing"),
            _LANES,
            *_SIZE,
            _THEN,
        )
    ),
    "snapshot": Application(
        (_BUILD, _LANES, _option("--lane", type=int, default=0, help="number of the lane, from 0"), *_SIZE, _THEN),
        lambda options, shell: SnapshotGoal(options.lane, options.lanes, size(options, shell.spark)),
        follows=True,
    ),
    "consume_log": Application(
        (_BUILD, *_SIZE, *_LAG, _THEN),
        lambda options, shell: ConsumeLogGoal(size(options, shell.spark), _max_lag(options), options.patience),
        follows=True,
    ),
    GATE: Application((_BUILD, *_BOUND, _WINDOW), follows=True),
    "catch_up": Application(
        (_BUILD, *_SIZE, *_LAG, _THEN),
        lambda options, shell: CatchUpGoal(size(options, shell.spark), _max_lag(options), options.patience),
        follows=True,
    ),
    "verify": Application(
        (_BUILD, _ROW_HASH, _FULL, _SAMPLE, _THEN),
        lambda options, shell: VerifyGoal(RowHash(options.row_hash), options.full, options.sample),
        follows=True,
    ),
    "repair": Application((_BUILD, _THEN), lambda options, shell: RepairGoal(), follows=True),
    "finish": Application(
        (_BUILD, _option("--unverified", action="store_true", help="finish without a certificate")),
        lambda options, shell: FinishGoal(verified=not options.unverified),
        follows=True,
    ),
    "upstream": Application(
        (
            _BUILD,
            *_SIZE,
            _option("--max-runtime", type=float, help="seconds to follow the source; without it, one pass"),
        ),
        _upstream,
    ),
    "cancel": Application(
        (
            _BUILD,
            _option("--drop", action="store_true", help="also delete the target, and the build's files beside it"),
        ),
        lambda options, shell: CancelGoal(),
    ),
    "prove": Application((_BUILD, _ROW_HASH, _FULL)),
    EXPLAIN: Application(
        (
            _BUILD,
            _option("--key", action="append", required=True, help="column=value, for each column of the key"),
            _option(
                "--since",
                type=int,
                help="first epoch to look at; by default the one after the planned epoch, at most 10,000 before the "
                "newest. For a topic: first offset; by default at most 10,000,000 before the newest",
            ),
        )
    ),
    "recover": Application(
        (
            _option(
                "--epoch",
                type=int,
                help="epoch of the source that the target's rows equal; leave it out after a RESTORE",
            ),
        )
    ),
}


def parser(application: str) -> Arguments:
    """The command line of an application."""
    arguments = Arguments(prog=application)
    for flag, settings in (*_PLACE, *APPLICATIONS[application].options):
        arguments.add_argument(flag, **settings)
    return arguments


def checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options; InvalidSpec if a number is out of range."""
    for name, least in LEAST.items():
        value = getattr(options, name, None)
        if value is not None and not least <= value <= MOST:
            raise invalid(name, value, f"must be at least {least} and at most {MOST}")
    if getattr(options, "lane", 0) >= getattr(options, "lanes", 1):
        raise invalid("lane", options.lane, f"lanes are counted from 0, and there are {options.lanes}")
    share("sample", getattr(options, "sample", 0.0))
    if getattr(options, "window", None):
        try:
            options.window = Window.from_json(options.window)
        except ValueError:
            raise invalid("window", options.window, "must be two times of day and a time zone") from None
    return options


def gate_of(options: argparse.Namespace, build: str) -> Asks[Verdict]:
    """What asks for the verdict of a gate with these options."""
    return look(build, _max_lag(options), options.window)


def goal_of(application: str, options: argparse.Namespace, shell: Interpreter) -> Goal:
    """The goal of an application."""
    make = APPLICATIONS[application].goal
    assert make is not None, f"{application} has no goal"
    return make(options, shell)
