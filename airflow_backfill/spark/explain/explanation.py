"""Why a row of a target is as it is: what the source did to its key, what the transform made of it, which commit of the
target applied that, and whether the target holds what it should.

Nothing is written. Only files that can hold the key are read, as far as statistics tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from airflow_backfill.core.errors import BackfillError, HistoryLost, InvalidSpec
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.reports.explained import verdict
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.explain.answer import MAX_TARGET_COMMITS, answer, held_rows, hidden_rows
from airflow_backfill.spark.explain.values import (
    MAX_CHANGES,
    Values,
    hidden_images,
    image_of,
    made_of,
    naming_errors,
    parsed,
    target_rows,
)
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.redaction import redacts
from airflow_backfill.spark.source.changes import CHANGE_TYPE, EPOCH
from airflow_backfill.spark.source.key_changes import KeyChanges
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.source.source import Source
from airflow_backfill.spark.strategies.strategy import rounds
from airflow_backfill.spark.transform.transform import OWN, Transform, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_EPOCHS = 10_000
"""Epochs that are looked at unless more are asked for: the newest ones."""
_IMAGE, _MADE = OWN + "image", OWN + "made"


@dataclass(frozen=True)
class Explanation:
    """Explains one key of a build whose state was just loaded. ``reader`` reads the target's log."""

    spark: SparkSession
    reader: BuildReader
    state: BuildState

    def of(self, given: Sequence[str], since: int | None = None) -> dict[str, Any]:
        """The explanation as plain JSON; see ``docs/schema/explain.json``. ``given`` names the key as ``column=value``,
        ``since`` the first epoch to look at (by default the one after the plan's, but at most the newest
        ``MAX_EPOCHS`` epochs).
        """
        plan = self.state.plan
        key = KeyValue.parse(self.spark, self.transform.source_schema, plan.spec.key, given)
        head = self.source.head
        start = max(plan.source.epoch, head - MAX_EPOCHS) + 1 if since is None else since
        if not 0 <= start <= head + 1:
            raise InvalidSpec(f"--since: must be an epoch from 0 to {head} (got {since})", field="--since")
        epochs = EpochRange(start, head + 1)
        changes = self._changes(key, epochs)
        holds = held_rows(self.spark, self.state, self.transform, key)
        should, unknown = self._should_hold(key)
        touched = max((one["epoch"] for one in changes["changes"]), default=-1)
        judged = verdict(holds, should, unknown, self.state.applied, touched)
        looked_at = {"snapshot": self._snapshot(key), **changes}
        found = answer(self.state, key, looked_at, holds, should, judged)
        return redacted(found, {*key.names, *self._target_key}) if redacts() else found

    @cached_property
    def transform(self) -> Transform:
        plan = self.state.plan
        return rounds(self.spark, plan, plan.spec.target, self.reader).transform

    @cached_property
    def source(self) -> Source:
        return open_source(self.spark, self.state.plan.spec.table)

    @cached_property
    def _target_key(self) -> tuple[str, ...]:
        return self.transform.target_key(self.state.plan.spec.key)

    def _snapshot(self, key: KeyValue) -> dict[str, Any]:
        """The key in the source's planned epoch."""
        epoch = self.state.plan.source.epoch
        try:
            rows = self._imaged(self._at(self.source, epoch).where(key.matches()), [])
        except BackfillError as error:
            return {"epoch": epoch, "rows": None, "error": error.to_json()}
        return {"epoch": epoch, "rows": [{"image": image, "made": made} for _, image, made in rows], "error": None}

    def _changes(self, key: KeyValue, epochs: EpochRange) -> dict[str, Any]:
        """What the source did to the key."""
        feed = not self.state.plan.appends
        if epochs:
            found: KeyChanges = self.source.key_changes(epochs, key, feed=feed)
        else:
            found = KeyChanges((), {}, ())
        columns = [quoted(name) for name in self.transform.source_schema.fieldNames()]
        changes: list[dict[str, Any]] = []
        for frame in found.frames:
            rows = frame.where(key.matches()).select(*columns, EPOCH, CHANGE_TYPE)
            for (epoch, change), image, made in self._imaged(rows, [EPOCH, CHANGE_TYPE]):
                at, operation = found.epochs[epoch].at, found.epochs[epoch].operation
                one = {"epoch": epoch, "at": at, "operation": operation, "change": change}
                changes.append({**one, "image": image, "made": made})
            if len(changes) > MAX_CHANGES:
                break
        changes.sort(key=lambda one: (one["epoch"], _ORDER.get(one["change"], 0)))
        commits = self._applied_in({one["epoch"] for one in changes[:MAX_CHANGES]})
        return {
            "epochs": {
                "from": epochs.start,
                "to": epochs.stop - 1,
                "looked_at": len(epochs) - len(found.missing),
                "read": len(found.epochs),
                "missing": list(found.missing[:MAX_CHANGES]),
            },
            "changes": [{**one, "applied_in": commits.get(one["epoch"])} for one in changes[:MAX_CHANGES]],
            "truncated": len(changes) > MAX_CHANGES,
        }

    def _imaged(self, rows: DataFrame, tags: Sequence[str]) -> list[tuple[tuple[Any, ...], Values, Values | None]]:
        """Each row's ``tags``, its values, and what the transform makes of it: None if ``where`` leaves it out."""
        rows = rows.select(*tags, image_of(self.transform).alias(_IMAGE), made_of(self.transform).alias(_MADE))
        with naming_errors():
            found = rows.limit(MAX_CHANGES + 1).collect()
        return [(tuple(row[tag] for tag in tags), parsed(row[_IMAGE]) or {}, parsed(row[_MADE])) for row in found]

    def _should_hold(self, key: KeyValue) -> tuple[list[Values] | None, str | None]:
        """What the target must hold of the key at its epoch, or None and why that is unknown."""
        epoch = self.state.applied
        if epoch is None:
            return None, "the snapshot is not complete, so the target stands at no epoch yet"
        if self.state.part is not None:
            return None, f"epoch {self.state.part.epoch} is being applied in parts"
        try:
            rows = self.transform.apply(self._at(self.source, epoch).where(key.matches()))
            return target_rows(rows.where(key.matches(self._target_key)), self.transform), None
        except HistoryLost as error:
            return None, f"epoch {epoch} of the source cannot be read any more: {error.message}"

    def _applied_in(self, epochs: set[int]) -> dict[int, dict[str, Any]]:
        """The commit of the target that applied each epoch (the last one, if it took several), as far as its log goes
        back.
        """
        found: dict[int, dict[str, Any]] = {}
        applied = {epoch for epoch in epochs if self.state.applied is not None and epoch <= self.state.applied}
        if not applied:
            return found
        try:
            for commit in islice(self.reader.log.newest_first(), MAX_TARGET_COMMITS):
                record = barrier_record(commit, self.state.plan.build)
                if record is None or record.event not in (Event.EPOCHS, Event.CHUNKS) or record.epochs is None:
                    continue
                for epoch in applied - found.keys():
                    if epoch in record.epochs:
                        found[epoch] = {"version": commit.version, "at": commit.timestamp}
                if record.epochs.start <= min(applied):
                    break
        except BackfillError:
            pass  # log clean-up has deleted older commits
        return found

    def _at(self, table: Source, epoch: int) -> DataFrame:
        with naming_errors():
            return table.at(epoch)


_ORDER = {"delete": 0, "update_preimage": 0, "update_postimage": 1, "insert": 1}


def redacted(found: Mapping[str, Any], shown: Collection[str]) -> dict[str, Any]:
    """The explanation without values of rows, except those of the columns ``shown``."""
    snapshot = found["snapshot"]
    rows = None if snapshot["rows"] is None else hidden_images(snapshot["rows"], shown)
    return {
        **found,
        "snapshot": {**snapshot, "rows": rows},
        "changes": hidden_images(found["changes"], shown),
        **hidden_rows(found, shown),
    }
