"""The epochs of a Delta table that touch a key. Statistics in the log tell which files can hold it; only those are
read. Change data files have no statistics: an epoch that has some is read if one of its data files can hold the key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.ledger.actions import Malformed, decode, lines, mapping
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import NotFound, Store
from airflow_backfill.spark.delta.range_files import physical_name
from airflow_backfill.spark.delta.vector_changes import Actions, changes_of_each
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.key_changes import KeyChanges, Touching
from airflow_backfill.spark.source.key_value import KeyValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_FILES = 1_000
"""Files of one epoch that are read by name; of an epoch with more, all are read."""
EPOCHS = 100
"""Epochs in one frame."""


AT_ONCE = 8
"""Commits that are read at one time."""
_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Epoch:
    """What there is to read of one epoch: lines of its log, or its whole feed."""

    epoch: int
    touching: Touching
    added: tuple[str, ...]
    removed: tuple[str, ...]
    whole: bool


def read_key(spark: SparkSession, table: str, epochs: EpochRange, key: KeyValue, *, feed: bool) -> KeyChanges:
    """The changes of the key in ``epochs`` (at least one) of the table."""
    store, version = open_store(table, spark=spark), DeltaVersion(spark, table, epochs.last)
    physical = [physical_name(version.schema, name) for name in key.names]
    found, missing = [], []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looked = pool.map(lambda epoch: _looked(store, epoch, key, physical, feed=feed), epochs)
        for epoch, one in zip(epochs, looked, strict=True):
            if isinstance(one, _Epoch):
                found.append(one)
            elif one is _MISSING:
                missing.append(epoch)
    return KeyChanges(list(_frames(version, found, feed=feed)), {one.epoch: one.touching for one in found}, missing)


def _looked(store: Store, epoch: int, key: KeyValue, physical: Sequence[str], *, feed: bool) -> _Epoch | object | None:
    """The epoch; None if no file of it can hold the key; ``_MISSING`` if its commit is deleted or damaged."""
    try:
        return _epoch(store, epoch, key, physical, feed=feed)
    except (NotFound, Malformed):
        return _MISSING


def _epoch(store: Store, epoch: int, key: KeyValue, physical: Sequence[str], *, feed: bool) -> _Epoch | None:
    """The epoch; None if no file of it can hold the key."""
    files: dict[str, list[str]] = {"add": [], "remove": []}
    change_data, at, operation = False, 0, ""
    for line in lines(store.chunks(f"{LOG}/{commit_name(epoch)}")):
        for kind, action in decode(line).items():
            if kind == "cdc":
                change_data = True
            elif kind == "commitInfo":
                at, operation = int(action.get("timestamp") or 0), str(action.get("operation") or "")
            elif kind in files and mapping(action).get("dataChange", True) and _may_hold(action, key, physical):
                files[kind].append(json.dumps(action))
    if not any(files.values()):
        return None
    added, removed = tuple(files["add"]), tuple(files["remove"])
    whole = (change_data and feed) or len(added) + len(removed) > MAX_FILES
    return _Epoch(epoch, Touching(at, operation), () if whole else added, () if whole else removed, whole)


def _may_hold(action: dict[str, Any], key: KeyValue, physical: Sequence[str]) -> bool:
    """Whether the file can hold the key. Takes the statistics out of the action."""
    try:
        stats = json.loads(action.pop("stats", None) or "{}")
    except ValueError:
        return True
    values = action.get("partitionValues")
    partition: Mapping[str, Any] = values if isinstance(values, dict) else {}
    return not isinstance(stats, dict) or key.may_be_in(physical, stats, partition)


def _frames(version: DeltaVersion, epochs: Sequence[_Epoch], *, feed: bool) -> Iterator[DataFrame]:
    """A few frames that hold the changes of all these epochs."""
    named = iter([one for one in epochs if not one.whole])
    while batch := list(islice(named, EPOCHS)):
        yield changes_of_each(version, [Actions(one.epoch, one.added, one.removed) for one in batch])
    for run in _runs([one.epoch for one in epochs if one.whole]):
        yield version.feed(run, from_files=not feed)


def _runs(epochs: Sequence[int]) -> Iterator[EpochRange]:
    """Consecutive epochs together."""
    start = 0
    for place, epoch in enumerate(epochs, 1):
        if place == len(epochs) or epochs[place] != epoch + 1 or place - start == EPOCHS:
            yield EpochRange(epochs[start], epoch + 1)
            start = place
