"""Builds whose tables are folders with real commit files, and no data: the core's own attempts, without Spark.

``JsonBuild`` takes a build wherever a test wants it (``sealed()``, ``caught_up()``, ``finished()``, or task by task)
and leaves a source, a target and a control folder that every reader takes for the real ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.control import Command
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from tests.core.model_target import FILES, Model


class JsonLog:
    """A Delta log in a folder. ``land`` writes what a ``Commit`` says as the actions that say it."""

    def __init__(self, table: Path) -> None:
        self._store = LocalStore(str(table))
        self._log = DeltaLog(self._store)
        self._newest: tuple[Protocol, TableMetadata] | None = None

    @property
    def head(self) -> int:
        return self._log.head()

    def read(self, version: int) -> Commit:
        return self._log.read(version)

    def land(self, commit: Commit) -> Commit:
        if commit.protocol is not None and commit.metadata is not None:
            self._newest = (commit.protocol, commit.metadata)
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions(commit))
        assert self._store.create(f"{LOG}/{commit_name(commit.version)}", text.encode()), "somebody was faster"
        return commit

    def write_checksum(self) -> None:
        """Write the checksum of the newest version, as writers do for every one: readers look no further down."""
        assert self._newest is not None
        protocol, metadata = self._newest
        content = {"protocol": _protocol(protocol), "metadata": _metadata(metadata)}
        self._store.put(f"{LOG}/{self.head:020}.crc", json.dumps(content).encode())


def actions(commit: Commit) -> Iterator[dict[str, Any]]:
    """The lines of a commit file."""
    info: dict[str, Any] = {"timestamp": commit.timestamp, "operation": commit.operation}
    info["operationMetrics"] = {name: str(value) for name, value in commit.metrics.items()}
    if commit.user_metadata is not None:
        info["userMetadata"] = commit.user_metadata
    yield {"commitInfo": info}
    if commit.protocol is not None:
        yield {"protocol": _protocol(commit.protocol)}
    if commit.metadata is not None:
        yield {"metaData": _metadata(commit.metadata)}
    for name, version in commit.txns.items():
        yield {"txn": {"appId": name, "version": version}}
    for kind, totals in (("add", commit.added), ("remove", commit.removed), ("cdc", commit.changed)):
        for file in _files(f"{kind}-{commit.version}", totals):
            stamp = {"add": {"modificationTime": commit.timestamp}, "remove": {"deletionTimestamp": commit.timestamp}}
            changes = commit.data_change and kind != "cdc"
            yield {kind: {**file, **stamp.get(kind, {}), "partitionValues": {}, "dataChange": changes}}


def _files(name: str, totals: FileTotals) -> Iterator[dict[str, Any]]:
    """As many files as the totals say, with their bytes and rows dealt out."""
    for n in range(totals.files):
        file: dict[str, Any] = {"path": f"{name}-{n}.parquet", "size": _share(totals.bytes, totals.files, n)}
        if totals.rows is not None:
            file["stats"] = json.dumps({"numRecords": _share(totals.rows, totals.files, n)})
        if totals.deleted_rows and n == 0:
            file["deletionVector"] = {"storageType": "u", "cardinality": totals.deleted_rows}
        yield file


def _share(total: int, files: int, n: int) -> int:
    return total // files + (n < total % files)


def _protocol(protocol: Protocol) -> dict[str, Any]:
    found: dict[str, Any] = {"minReaderVersion": protocol.reader_version, "minWriterVersion": protocol.writer_version}
    if protocol.reader_version >= 3:
        found["readerFeatures"] = sorted(protocol.reader_features)
    if protocol.writer_version >= 7:
        found["writerFeatures"] = sorted(protocol.writer_features)
    return found


def _metadata(metadata: TableMetadata) -> dict[str, Any]:
    return {
        "id": metadata.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": metadata.schema_json,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": 0,
    }


class JsonBuild(Model):
    """A build in a folder: ``source``, ``target`` and ``target.backfill``. Time begins now, and is the model's."""

    def __init__(
        self, folder: Path, files: Sequence[fx.FileSize] = FILES, *, name: str = "orders", **model: Any
    ) -> None:
        self.folder = folder
        spec = BackfillSpec.parse(
            {"name": name, "source": str(folder / "source"), "target": str(folder / "target"), "key": ["id"]}
        )
        self.reader = BuildReader(spec.target)
        self.spec = spec
        super().__init__(files, spec=spec, now=time.time_ns() // 1_000_000, **model)

    @staticmethod
    def found(folder: Path, files: Sequence[fx.FileSize] = FILES, **model: Any) -> JsonBuild:
        """The build that another process has left in the folder."""
        return _Found(folder, files, **model)

    def _source_log(self) -> JsonLog:
        return JsonLog(Path(self.spec.source))

    def _target_log(self) -> JsonLog:
        return JsonLog(Path(self.spec.target))

    def _target_properties(self) -> dict[str, str]:
        return {OWNER: self.spec.name}

    @property
    def location(self) -> str:
        """The target, as a command line or an operator is given it."""
        return self.spec.target

    def plan(self, lanes: int = 1) -> Plan:
        me = self._drawn("plan")
        plan = super().plan(lanes)
        self.reader.control.store_outcome(me, {"code": "OK", "result": summarize(self.state())})
        return plan

    def run(self, task: Goal, me: Attempt | None = None) -> BuildState:
        """An attempt from start to end, which leaves its outcome behind as the applications do."""
        mine = me or self._drawn(type(task).__name__)
        return self.left_behind(mine, lambda: super(JsonBuild, self).run(task, mine))

    def left_behind(self, me: Attempt, work: Callable[[], BuildState]) -> BuildState:
        try:
            state = work()
        except BackfillError as error:
            self.reader.control.store_outcome(me, error.to_json())
            raise
        self.reader.control.store_outcome(me, {"code": "OK", "result": summarize(state)})
        return state

    def attempt(self) -> Attempt:
        return self._drawn("unknown")

    def _drawn(self, task: str) -> Attempt:
        return self.reader.draw_attempt({"task": task})

    def state(self) -> BuildState:
        return self.reader.state()

    def order(self, command: Command) -> int:
        return self.reader.control.order(self.draft().build, command)

    def view(self, after: int) -> SourceView:
        plan = self.reader.plan(self.draft().build)
        assert plan is not None
        return watch_source(plan).view(after)

    def _text(self, text: str) -> str:
        return self.reader.control.enclosures.enclosed(text)

    def answer(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.ReadHead() | fx.ReadCommit() | fx.ReadPlan():
                self.effects.append(effect)
                return self.reader.answer(effect)
            case fx.ReadTransactions():
                _, metadata = self.reader.log.protocol_and_metadata()
                return fx.Transactions(metadata.table_id, dict(self._txns))
            case fx.CopyPlan(plan):
                self.stored_plan = plan
                return self.reader.control.store_plan(plan)
            case fx.ReadCommands(files):
                return fx.CommandsRead(self.now, self.reader.commands(self.draft().build), self.files if files else ())
            case _:
                return super().answer(effect)


class _Found(JsonBuild):
    def _begin(self) -> None:
        commits = (self.target.read(version) for version in range(self.target.head + 1))
        self._txns = {name: version for commit in commits for name, version in commit.txns.items()}
        self.stored_plan = self.reader.plan(self.draft().build)
