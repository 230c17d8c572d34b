"""The digest of what changes do to the transformed source: rows that come, minus rows that go."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from airflow_backfill.core.values.digest import NONE, Digest
from airflow_backfill.spark.digest.digest import HASHES, digest_of, sums
from airflow_backfill.spark.digest.typed_hash import typed_hashes
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.source.changes import CHANGE_TYPE, COMES, EPOCH, Changes
from airflow_backfill.spark.transform.transform import Transform


def changed_digests(transform: Transform) -> list[Column]:
    """The digest of a change's transformed row, as two columns; null if the filter drops it."""
    passes = transform.passes()
    values = [F.when(passes, F.expr(output.sql)) for output in transform.outputs]
    kinds = [field.dataType for field in transform.schema.fields]
    hashes = typed_hashes(list(zip(values, kinds, strict=True)))
    return [F.when(passes, one).alias(name) for one, name in zip(hashes, HASHES, strict=True)]


def balance(groups: Iterable[Row]) -> Digest:
    """The digest of all changes, from their ``sums`` by epoch and type."""
    total = NONE
    for group in groups:
        found = digest_of(group)
        total = total + (found if group[CHANGE_TYPE] in COMES else -found)
    return total


def digest_of_changes(changes: Changes, transform: Transform) -> Digest:
    """The digest of changes with whole rows. ChangesIncomplete if their counts differ from the log, HistoryLost if a
    file is gone.
    """
    rows = changes.frame.select(CHANGE_TYPE, EPOCH, *changed_digests(transform)).groupBy(EPOCH, CHANGE_TYPE)
    with lost_history_named():
        groups = rows.agg(F.count(F.lit(1)).alias("rows"), *sums()).collect()
    distrusted = changes.prove({(group[EPOCH], group[CHANGE_TYPE]): group["rows"] for group in groups})
    return digest_of_changes(changes.distrusting(distrusted), transform) if distrusted else balance(groups)
