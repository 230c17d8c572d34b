"""The Spark applications without Spark: same command line, protocol, log, outcomes; the commits hold no rows.

What is tested with it is Airflow's side. Attempts are the core's own, and every commit is a file of a real Delta log
that the package's readers read; only what Spark would do with rows is counted instead of done.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import CancelGoal, ResumeGoal
from airflow_backfill.core.attempts.settle_plan import settle
from airflow_backfill.core.errors import NotPlanned, SourceNotDelta
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan, SourceFacts, app_id, build_id
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.forecast import Work, report
from airflow_backfill.core.reports.recommend import Advice
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.open_source import open_source, watch_source
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run.application import attempted, work_through
from airflow_backfill.spark.run.phases import parser, size

FILES = 4


def make_source(path: Path, properties: Mapping[str, str] | None = None, rows: int = 40) -> Path:
    """A Delta table with change data feed, in a few files."""
    configuration = {"delta.enableChangeDataFeed": "true", **(properties or {})}
    for n in range(FILES):
        part = pa.table({"id": pa.array(range(n * rows, (n + 1) * rows), pa.int64())})
        write_deltalake(path, part, mode="append", configuration=configuration)
    return path


def commit_to(source: Path, epochs: int = 1, at: float | None = None) -> None:
    """More epochs of the source; ``at`` is when, in seconds since 1970, if not now."""
    for _ in range(epochs):
        write_deltalake(source, pa.table({"id": pa.array([time.time_ns()], pa.int64())}), mode="append")
        if at is not None:
            _date(max((source / "_delta_log").glob("*.json")), at)


def long_ago(table: Path) -> None:
    """Date all commits of a table back by twenty days."""
    for commit in (table / "_delta_log").glob("*.json"):
        _date(commit, time.time() - 20 * 24 * 3600)


def _date(commit: Path, at: float) -> None:
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = int(at * 1000)
    commit.write_text("\n".join(map(json.dumps, lines)))


def built(source: Path, target: Path, *applications: str, strategy: str = "snapshot", **options: Any) -> BuildState:
    """The state after these applications ran, each in an attempt of its own."""
    spec = {"name": "orders", "source": str(source), "target": str(target), "key": ["id"], "strategy": strategy}
    for application in applications:
        line = ["--target", str(target)]
        line += ["--spec", json.dumps(spec)] if application == "plan" else []
        line += ["--max-lag-epochs", "0"] if application in ("consume_log", "catch_up") else []
        for name, value in options.items():
            line += [f"--{name}", str(value)] if application in ("plan", "snapshot") else []
        outcome = main(application, line)
        assert outcome["code"] == "OK", outcome
    return BuildReader(str(target)).state()


def main(application: str, argv: Sequence[str]) -> dict[str, Any]:
    """Run one application; its outcome, which lies beside the target, too."""
    options = parser(application).parse_args(argv)
    control = ControlFolder.beside(options.target)
    me = Attempt(options.generation, options.attempt) if options.attempt else control.draw_attempt({}, floor=0)
    control.announce(me, {"application": f"test-{me.generation}", "ui": f"http://spark.test/{me.generation}"})
    outcome = attempted(lambda: _work(application, options, me))
    control.store_outcome(me, outcome)
    return outcome


def _work(application: str, options: Any, me: Attempt) -> dict[str, Any]:
    shell = Shell(options.target)
    if application == "plan":
        state, existing = shell.plan(BackfillSpec.parse(json.loads(options.spec)), options.lanes, me)
        splits, now = state.plan.splits, _now()
        work = Work(splits.files, splits.files, splits.bytes, splits.rows, size(options), 1)
        advice = Advice(state.plan.spec.strategy, "a test")
        forecast = report(state.plan, work, [], now, Retention.of({}), "a test", [], advice)
        said = {"existing": True} if existing else forecast
        return {**summarize(state), "report": said}
    if application == "cancel":
        return summarize(shell.run(run(CancelGoal(), me, options.build)))
    return summarize(work_through(application, options, shell, me))


class Shell:
    """Answers effects with files."""

    spark = None

    def __init__(self, target: str) -> None:
        self.target = target
        self.reader = BuildReader(target)
        self._plan: Plan | None = None

    def run(self, attempt: Generator[fx.Effect, Any, BuildState]) -> BuildState:
        return drive(attempt, self.answer)

    def plan(self, spec: BackfillSpec, lanes: int, me: Attempt) -> tuple[BuildState, bool]:
        try:
            state = self.reader.state()
        except (NotPlanned, SourceNotDelta):
            pass
        else:
            number = max((n for n, _ in self.reader.commands(state.plan.build)), default=0)
            return drive(run(ResumeGoal(number), me), self.answer), True
        admitted = open_source(spec.table).admit(spec)
        epoch, metadata = admitted.epoch, admitted.metadata
        table_id = self._make_target(spec, metadata.schema_json)
        sizes = _files(spec.source, epoch)
        draft = Plan(
            build=build_id(table_id, spec.name),
            spec=spec,
            target_id=table_id,
            target_schema_json=metadata.schema_json,
            target_version=0,
            source=SourceFacts(metadata.table_id, epoch, metadata.schema_json, metadata.partition_columns),
            splits=FileSplits(FileSplits.cut([s.bytes for s in sizes], 64), 1, len(sizes), "digest"),
            lanes=lanes,
            settings={},
            made=(spec.target,),
        )
        drive(settle(draft, _now()), self.answer)
        return self.reader.state(), False

    def answer(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.ReadHead() | fx.ReadCommit():
                return self.reader.answer(effect)
            case fx.ReadPlan(build):
                self._plan = self.reader.plan(build)
                return self._plan
            case fx.CommitPlan(plan):
                return self._commit({"appId": app_id(plan.build), "version": 1}, plan.encode())
            case fx.CopyPlan(plan):
                return self.reader.control.store_plan(plan)
            case fx.ReadCommands(files):
                plan = self._known
                sizes = _files(plan.spec.source, plan.source.epoch) if files else ()
                return fx.CommandsRead(_now(), self.reader.commands(plan.build), sizes)
            case fx.ReadSourceLog(after):
                return watch_source(self._known).view(after)
            case fx.CommitRecord(record, work):
                rows = 0 if isinstance(work, fx.Nothing) else 7
                return self._commit({"appId": record.app_id, "version": record.seq}, record.encode(), rows)
            case fx.VerifyTarget(epoch, version):
                return Certificate(epoch, version, rows=160, digest="ab" * 32, buckets=1, at=_now())
            case fx.SleepUntil(until):
                threading.Event().wait(min(max(0.0, until - _now()) / 1000, 0.2))

    @property
    def _known(self) -> Plan:
        assert self._plan is not None
        return self._plan

    def _make_target(self, spec: BackfillSpec, schema: str) -> str:
        table_id = "target-" + os.urandom(4).hex()
        metadata = {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {OWNER: spec.name},
        }
        self._append(0, {"metaData": metadata}, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        return table_id

    def _commit(self, txn: dict[str, Any], text: str, rows: int = 0) -> fx.CommitOutcome:
        info = {"timestamp": _now(), "operation": "WRITE", "userMetadata": text}
        info["operationMetrics"] = {"numOutputRows": str(rows)}
        add = {"path": os.urandom(4).hex(), "size": 9, "dataChange": True, "stats": f'{{"numRecords":{rows}}}'}
        actions = [{"commitInfo": info}, {"txn": txn}, *([{"add": add}] if rows else [])]
        self._append(self.reader.log.head() + 1, *actions)
        return fx.CommitOutcome()

    def _append(self, version: int, *actions: dict[str, Any]) -> None:
        text = "\n".join(json.dumps(action) for action in actions)
        open_store(self.target).create(f"_delta_log/{version:020}.json", text.encode())


def _files(source: str, epoch: int) -> tuple[fx.FileSize, ...]:
    return tuple(fx.FileSize(100, 1) for _ in DeltaTable(source, version=epoch).file_uris())


def _now() -> int:
    return time.time_ns() // 1_000_000
