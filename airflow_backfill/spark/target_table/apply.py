"""Writes rows to the target. Each call is exactly one Delta commit with rows, transaction id and user metadata.

If the target already has the transaction version, Delta skips the commit without an error. So a call that returns
proves nothing: the caller reads the log back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.target_table.null_partitions import BECOME_NULL, NULL_PARTITION
from airflow_backfill.ledger.java_error import troubles
from airflow_backfill.spark.delta_internals import Draft, commit_nothing, partition_columns
from airflow_backfill.spark.session.application_conf import application_conf
from airflow_backfill.spark.session.settings import SessionSettings, assert_safe
from airflow_backfill.spark.session.staged import held_bytes
from airflow_backfill.spark.target_table.key_ranges import in_ranges, key_ranges
from airflow_backfill.spark.target_table.net_change import BESIDE, DELETE, NEW, OP, UPSERT, NetChanges
from airflow_backfill.spark.transform.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
NARROW_BYTES = 1 << 30
"""From this snapshot size on, a MERGE gets ranges of the changed keys, clustered or not."""
BROADCAST_BYTES = 32 << 20
"""Up to this size in memory, changes are broadcast: the driver holds them, and every executor."""
_SOURCE = "spark.databricks.delta.merge.materializeSource"
_ONE_FILE = {
    "spark.databricks.delta.optimizeWrite.enabled": "true",
    "spark.databricks.delta.optimizeWrite.maxShufflePartitions": "1",
}
"""Otherwise each task that finds a changed key writes a file."""
_MET = "the target has a row of a key that the changes add"


class KeyMet(Exception):
    """The target has a row of a ``NEW`` key. Nothing is committed."""


@dataclass(frozen=True, slots=True)
class Txn:
    """A transaction id. For each version of an application id, Delta accepts one commit."""

    app_id: str
    version: int


def append(rows: DataFrame, target: str, txn: Txn, user_metadata: str) -> None:
    """Append these rows in one commit. For what fails see ``guarded``."""
    draft = Draft(rows.sparkSession, target)
    if draft.is_new(txn.app_id, txn.version):
        draft.add(guarded(rows, target))
        draft.commit(txn.app_id, txn.version, user_metadata)


def texts_among(columns: Sequence[str], rows: DataFrame) -> list[str]:
    """Those of the columns that are texts in the rows."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    return [name for name in columns if isinstance(kinds.get(name), StringType)]


def becomes_null(text: Column) -> Column:
    """Whether Delta stores this text as null in a column that partitions a table. Compared by bytes, because collations
    may take another text for the same.
    """
    return text.cast("binary").isin(*(F.lit(value.encode()) for value in BECOME_NULL))


def guarded(rows: DataFrame, target: str) -> DataFrame:
    """The rows, which fail where a column that partitions the target has a text that Delta would store as null. Rows
    that go may have one.
    """
    texts = texts_among(partition_columns(rows.sparkSession, target), rows)
    if not texts:
        return rows
    comes = F.col(OP) != DELETE if OP in rows.columns else F.lit(True)
    checked = {
        name: F.when(comes & becomes_null(text), F.raise_error(F.lit(NULL_PARTITION))).otherwise(text)
        for name, text in ((name, F.col(quoted(name))) for name in texts)
    }
    return rows.withColumns(checked)


def empty(spark: SparkSession, target: str, txn: Txn, user_metadata: str) -> None:
    """Commit only the transaction id and the metadata."""
    commit_nothing(spark, target, txn.app_id, txn.version, user_metadata)


def changes(
    net: NetChanges, target: str, key: Sequence[str], txn: Txn, user_metadata: str, *, narrowed: bool = True
) -> None:
    """Apply these changes in the cheapest way, in one commit. For ``narrowed`` and ``KeyMet`` see ``merge``. An append
    does not look at the target's keys.
    """
    if net.empty:
        empty(net.frame.sparkSession, target, txn, user_metadata)
    elif net.only_inserts:
        append(net.rows(), target, txn, user_metadata)
    else:
        merge(net, target, key, txn, user_metadata, narrowed=narrowed)


def narrowed(plan: Plan) -> bool:
    """Whether a MERGE should get ranges of the changed keys: the target is large, or files hold ranges of the key."""
    return plan.spec.clustering == "key" or plan.splits.bytes >= NARROW_BYTES


def merge(
    net: NetChanges,
    target: str,
    key: Sequence[str],
    txn: Txn,
    user_metadata: str,
    *,
    narrowed: bool = True,
    place: Sequence[str] = (),
) -> None:
    """Bring the rows of the changed keys to their last state, in one commit.

    ``narrowed`` tells Delta ranges that hold the changed keys, so it skips files outside of them. On a small target
    that costs more than it saves: half a second on 60 MB. With ``place`` (columns), a change with a smaller place than
    the target's row is ignored. Without it, raises KeyMet if a ``NEW`` key matches a row: the MERGE's own join tells,
    so nobody has to read the target before.

    Runs in its own session: Delta takes the transaction id of a MERGE from the session, and other statements in the
    same session would use it too.
    """
    session = _session(net.frame.sparkSession, txn, user_metadata)
    rows = guarded(net.frame, target)
    if not net.more and 0 < held_bytes(net.staged) <= BROADCAST_BYTES:
        # Otherwise the scan of the target shuffles all rows of the files that may hold a key.
        rows = F.broadcast(rows)
        for name, value in _ONE_FILE.items():
            session.conf.set(name, value)
    columns = [name for name in rows.columns if name not in (OP, NEW)]
    values: dict[str, str | Column] = {quoted(c): _of("s", c) for c in columns}
    is_upsert, is_delete = _of("s", OP) == UPSERT, _of("s", OP) == DELETE
    merged = DeltaTable.forPath(session, target).alias("t").merge(rows.alias("s"), _same_key(net, key, narrowed))
    if place:
        newer = place_of("s", place) >= place_of("t", place)
        merged = merged.whenMatchedDelete(is_delete & newer).whenMatchedUpdate(is_upsert & newer, values)
    elif net.new:
        # Delta evaluates conditions for rows that match nothing, too, but the values only for rows that match.
        first = quoted(key[0])
        guard = F.when(_of("s", NEW), F.raise_error(F.lit(_MET))).otherwise(values[first])
        merged = merged.whenMatchedDelete(is_delete & ~_of("s", NEW)).whenMatchedUpdate(set={**values, first: guard})
    else:
        merged = merged.whenMatchedDelete(is_delete).whenMatchedUpdate(set=values)
    if not net.only_matches:
        # With this clause Delta shuffles all rows of the touched files, because each change may have to stay alone.
        merged = merged.whenNotMatchedInsert(_of("s", OP) != DELETE, values)
    try:
        merged.execute()
    except (PySparkException, Py4JJavaError) as error:
        if any(_MET in trouble.text for trouble in troubles(error)):
            raise KeyMet(_MET) from error
        raise


def rewrite(rows: DataFrame, target: str, key: Sequence[str], txn: Txn, user_metadata: str) -> None:
    """Remove the target's rows of every key with ``DELETE`` and add the rows with ``UPSERT``, in one commit."""
    session = _session(rows.sparkSession, txn, user_metadata)
    values: dict[str, str | Column] = {quoted(c): _of("s", c) for c in rows.columns if c != OP}
    goes = _of("s", OP) == DELETE
    for column in key:
        goes = goes & _of("t", column).eqNullSafe(_of("s", column))
    (
        DeltaTable.forPath(session, target)
        .alias("t")
        .merge(guarded(rows, target).alias("s"), goes)
        .whenMatchedDelete()
        .whenNotMatchedInsert(_of("s", OP) == UPSERT, values)
        .execute()
    )


def _session(spark: SparkSession, txn: Txn, user_metadata: str) -> SparkSession:
    session = spark.newSession()
    SessionSettings.read(spark).set(session)
    confs = {name: spark.conf.get(name) or "" for name in _KEPT} | {
        "spark.databricks.delta.write.txnAppId": txn.app_id,
        "spark.databricks.delta.write.txnVersion": str(txn.version),
        "spark.databricks.delta.commitInfo.userMetadata": user_metadata,
        "spark.databricks.delta.autoCompact.enabled": "false",
        "spark.databricks.delta.optimizeWrite.enabled": "false",
        "spark.databricks.delta.schema.autoMerge.enabled": "false",
        # The changes are staged, so reading them twice returns the same rows.
        _SOURCE: application_conf(spark).get(_SOURCE) or "none",
    }
    for name, value in confs.items():
        session.conf.set(name, value)
    assert_safe(session)
    return session


def _same_key(net: NetChanges, key: Sequence[str], narrowed: bool) -> Column:
    """Equal keys, and ranges of the keys as literals: Delta prunes files by literals only."""
    condition = _of("s", OP) != BESIDE if net.beside else F.lit(True)
    for column in key:
        condition = condition & (_of("t", column) == _of("s", column))
        if narrowed and column in net.bounds:
            condition = condition & in_ranges(_of("t", column), key_ranges(net, column))
    return condition


def _of(side: str, column: str) -> Column:
    return F.col(f"{side}.{quoted(column)}")


def place_of(side: str, columns: Sequence[str]) -> Column:
    """The place in the topic of a row on one side of a join. A greater place is later."""
    return F.struct(*(F.col(f"{side}.{quoted(name)}").alias(f"at_{n}") for n, name in enumerate(columns)))
