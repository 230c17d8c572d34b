"""The applications of a build without Spark: the same command lines, attempts, errors and outcomes, but no rows.

The logs of source and target are real, and so is the folder beside the target. What only Spark can know is made up: no
row is read, transformed or compared, nobody looks at expressions, and every proof succeeds.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from airflow_backfill.core.attempts.announcer import announce
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import Goal, ResumeGoal
from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.attempts.settle_plan import check_same, settle
from airflow_backfill.core.errors import InvalidSpec, NotPlanned, TargetExists
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan, SourceFacts, app_id, build_id
from airflow_backfill.core.model.registry import AUTO
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.explained_row import UNKNOWN
from airflow_backfill.core.reports.forecast import Work, report
from airflow_backfill.core.reports.recommend import Advice
from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.splits.ranges import KeyRanges
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.strategy import check_lanes
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.options import parsed
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import OF_A_BUILD, location_beside
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.open_source import open_source, watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run.application import concluded, ended, kept
from airflow_backfill.spark.run.next_phases import after_plan, following, work_through
from airflow_backfill.spark.run.phases import EXPLAIN, checked, parser, size
from airflow_backfill.testing.json_log import JsonLog

MADE = "airflow_backfill.testing"
"""The table property of targets whose rows are made up."""
FILES = (fx.FileSize(bytes=100, rows=1),) * 4
"""The files of every source."""
BYTES = sum(file.bytes for file in FILES)
ROWS = 7
"""The rows of every commit that has some."""
COST = dict.fromkeys(("core_seconds", "read_bytes", "written_bytes", "shuffled_bytes", "driver_requests"), 0)
"""What every application has cost."""
MOST_SECONDS = 0.2
"""The longest wait: then an attempt looks again."""


class _Waits(Exception):
    """There is nothing to announce now."""


def main(application: str, argv: Sequence[str]) -> dict[str, Any]:
    """Run one application, named as its entry point. Returns its outcome, which is also stored beside the target."""
    options = parser(application).parse_args(argv)
    shell = Shell(options.target)
    given = Attempt(options.generation, options.attempt) if options.attempt else None
    me = shell.me = given or shell.reader.draw_attempt({"task": application})
    started = {"application": f"test-{me.generation}", "ui": f"http://spark.test/{me.generation}"}
    control = shell.reader.control
    return concluded(control, me, started, lambda: _work(application, checked(options), shell, me), lambda: COST)


def _work(application: str, options: argparse.Namespace, shell: Shell, me: Attempt) -> dict[str, Any]:
    def reach(goal: Goal, build: str | None) -> BuildState:
        return shell.reach(goal, me, build)

    if application == "plan":
        then = following(options)
        state, said = _planned(options, shell, me)
        return {**summarize(after_plan(state, then, shell, reach)), "report": said}
    if application == "prove":
        return drive(prove(options.build, RowHash(options.row_hash), full=options.full), shell.answer).to_json()
    if application == EXPLAIN:
        return kept(shell.reader.control, me, _explained(options.key, shell.reader.state()))
    if application == "recover":
        return summarize(drive(recover(me, options.epoch), shell.answer))
    if application == "cancel" and options.drop:
        result = ended(shell.reader.control, lambda: work_through(application, options, shell, reach))
        _drop(shell)
        return {**result, "dropped": [shell.target]}
    return summarize(work_through(application, options, shell, reach))


def _explained(key: Sequence[str], state: BuildState) -> dict[str, Any]:
    """An explanation that has looked at no row."""
    spec, epoch = state.plan.spec, state.plan.source.epoch
    return {
        **{"target": spec.target, "source": spec.source, "build": state.plan.build, "strategy": spec.strategy},
        "key": dict(part.split("=", 1) for part in key),
        "snapshot": {"epoch": epoch, "rows": [], "error": None},
        "epochs": {"from": epoch + 1, "to": epoch, "looked_at": 0, "read": 0, "missing": []},
        **{"changes": [], "truncated": False, "applied": state.applied, "target_version": state.proven},
        **{"holds": [], "should_hold": None, "verdict": UNKNOWN, "why": "no row is read without Spark"},
    }


def _planned(options: argparse.Namespace, shell: Shell, me: Attempt) -> tuple[BuildState, dict[str, Any]]:
    """The state, and what is said of the plan."""
    spec = BackfillSpec.parse(parsed(options.spec))
    try:
        if options.on_existing == "restart":
            _drop(shell)
        existing = shell.reader.state()
    except NotPlanned:
        plan = drive(settle(_draft(spec, options.lanes, shell), now_ms(), spec), shell.answer)
        work = Work(len(FILES), len(FILES), plan.splits.bytes, plan.splits.rows, size(options), Speeds.usual(1))
        advice = Advice(plan.spec.strategy, "nothing else was looked at")
        said = report(plan, work, [], now_ms(), Retention.of({}), "without rows", [], advice)
        shell.reader.control.store_report(plan.build, said)
        return shell.reader.state(), said
    check_same(existing.plan.spec, spec)
    number = max((n for n, _ in shell.reader.commands(existing.plan.build)), default=0)
    return shell.reach(ResumeGoal(number), me), {"existing": True}


def _draft(spec: BackfillSpec, lanes: int, shell: Shell) -> Plan:
    if spec.topic:
        raise InvalidSpec("topic: no topic can be read without Spark; test this build with Spark", field="topic")
    source = open_source(spec.table).admit(spec).facts
    if spec.strategy == AUTO:
        spec = replace(spec, strategy="snapshot" if spec.key and source.feed else "chain")
    check_lanes(spec, lanes)
    files = FileSplits(tuple(range(len(FILES) + 1)), BYTES, len(FILES), "made up", (1,) * len(FILES))
    target_id = _made(shell, spec, source)
    return Plan(
        build=build_id(target_id, spec.name),
        spec=spec,
        target_id=target_id,
        target_schema_json=source.schema_json,
        target_version=0,
        source=source,
        splits=KeyRanges((("1",),), files.bytes, files.rows) if spec.strategy == "arrangement" else files,
        lanes=lanes,
        settings={},
        made=(spec.target,),
    )


def _made(shell: Shell, spec: BackfillSpec, source: SourceFacts) -> str:
    """The id of the target, which has the source's columns. If several planners run, the first one's table stays."""
    metadata = TableMetadata(str(uuid4()), source.schema_json, (), {OWNER: spec.name, MADE: "true"})
    with suppress(FileExistsError):
        shell.log.land(Commit(0, now_ms(), "CREATE TABLE", metadata=metadata, protocol=Protocol(1, 2)))
    _, metadata = shell.reader.log.protocol_and_metadata()
    return metadata.table_id


def _drop(shell: Shell) -> None:
    """Remove the target and its control folder, except the attempts."""
    shell.check_made_up()
    for folder in (shell.target, *(f"{location_beside(shell.target)}/{name}" for name in OF_A_BUILD)):
        location = Location.parse(folder)
        if not location.local:
            raise InvalidSpec(f"target: without Spark only folders are removed, and {folder} is none", field="target")
        shutil.rmtree(location.path, ignore_errors=True)
    shell.reader.control.end_drop()


class Shell:
    """Answers the effects of attempts on the target at a location. Changes no target that Spark made."""

    plan: Plan
    """Known once an attempt has asked for it."""
    me: Attempt | None = None
    """Whose effects it answers; None if nobody has said."""
    spark = None
    """For what asks a shell for its session: there is none, so stores are opened without it."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.reader = BuildReader(target)
        self.log = JsonLog(target)

    def reach(self, goal: Goal, me: Attempt, build: str | None = None) -> BuildState:
        """Work until the goal is reached. A chain announces epochs before each step, not beside it."""

        def answer(effect: fx.Effect[Any]) -> Any:
            if isinstance(effect, fx.ReadCommands) and goal.announces:
                with suppress(_Waits):
                    drive(announce(Attempt(me.generation, f"{me.name}/seen"), build), self._at_once)
            return self.answer(effect)

        return drive(run(goal, me, build), answer)

    def _at_once(self, effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.SleepUntil):
            raise _Waits
        return self.answer(effect)

    def answer(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.CommitPlan(plan):
                return self._commit(app_id(plan.build), 1, plan.encode())
            case fx.CopyPlan(plan):
                return self.reader.control.store_plan(plan)
            case fx.CommitRecord(record, work):
                rows = 0 if isinstance(work, fx.Nothing) else ROWS
                return self._commit(record.app_id, record.seq, record.encode(), rows)
            case fx.SleepUntil():
                time.sleep(min(effect.left(now_ms()) / 1000, MOST_SECONDS))
            case fx.ReadPlan(build):
                found = self.reader.plan(build)
                if found is not None:
                    self.plan = found
                return found
            case _:
                return self._look(effect)

    def _look(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.ReadCommands(files):
                commands = self.reader.commands(self.plan.build)
                return fx.CommandsRead(now_ms(), commands, FILES if files else (), self.reader.properties)
            case fx.ReadCost() if self.me is not None:
                return self.reader.control.cost({self.me: COST})
            case fx.ReadTransactions():
                _, metadata = self.reader.log.protocol_and_metadata()
                txns: dict[str, int] = {}
                for commit in self.reader.log.newest_first():
                    txns = {**commit.txns, **txns}
                return fx.Transactions(metadata.table_id, txns)
            case fx.ReadSourceLog(after):
                return watch_source(self.plan).view(after)
            case fx.NextChunk(_, positions):
                ends = {split: None for split, position in enumerate(positions) if not position.read}
                return fx.Chunks(ends, len(FILES), BYTES, ROWS)
            case fx.VerifyTarget(epoch, version, _, row_hash, kind):
                return Certificate(
                    epoch, version, ROWS, "ab" * 32, buckets=1, at=now_ms(), row_hash=row_hash, kind=kind
                )
            case _:
                return self.reader.answer(effect)

    def check_made_up(self) -> None:
        """TargetExists unless this module made the target: commits without files would damage another one."""
        if MADE not in self.reader.properties:
            raise TargetExists(
                f"target: {self.target} was not made by a test, and applications without Spark would damage it; name "
                "another target",
                target=self.target,
            )

    def _commit(self, app: str, seq: int, text: str, rows: int = 0) -> fx.CommitOutcome:
        """As Delta does it: a sequence number that is already there is skipped."""
        self.check_made_up()
        head = self.reader.log.head()
        known = (commit.txns[app] for commit in self.reader.log.newest_first() if app in commit.txns)
        if next(known, 0) >= seq:
            return fx.CommitOutcome()
        commit = Commit(
            head + 1,
            now_ms(),
            "WRITE",
            added=FileTotals(1, rows, rows) if rows else FileTotals(),
            data_change=rows > 0,
            txns={app: seq},
            user_metadata=self.reader.control.enclosures.enclosed(text),
            metrics={"numOutputRows": rows},
        )
        try:
            self.log.land(commit)
        except FileExistsError as error:
            return fx.CommitOutcome(conflict=str(error))
        return fx.CommitOutcome()
