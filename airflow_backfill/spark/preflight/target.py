"""Checks of the target's location before a build begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from airflow_backfill.core.errors import InvalidExpression, InvalidSpec, TargetRefuses
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.target_table.null_partitions import BECOME_NULL, or_null
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.ledger.admission import admit_target, check_whole
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.session.creation import check_free
from airflow_backfill.spark.target_table.apply import becomes_null, texts_among
from airflow_backfill.spark.transform.transform import Transform, quoted, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LENGTH, _GENERATED, _IDENTITY = "__CHAR_VARCHAR_TYPE_STRING", "delta.generationExpression", "delta.identity.start"
_FILES = "_metadata"
"""Spark's own column, of the files of a table. A MERGE reads it."""
_FILLED = (_GENERATED, _IDENTITY, "CURRENT_DEFAULT")
"""What says of a column that Delta fills it where a row has no value."""


def inspect_target(spark: SparkSession, spec: BackfillSpec, *, dropped: bool = False) -> TableMetadata | None:
    """The target's metadata if it belongs to this build; None if the location is empty; TargetExists otherwise.
    ``dropped``: the target was dropped just now, so it need not be empty.
    """
    check_whole(ControlFolder.beside(spec.target, spark), spec.target)
    metadata = admit_target(DeltaLog(open_store(spec.target, spark=spark)), spec)
    if metadata is None and not dropped:
        check_free(spark, spec.target)
    return metadata


def check_clustered(spark: SparkSession, spec: BackfillSpec, metadata: TableMetadata) -> None:
    """InvalidSpec if the target that exists has to be clustered and is not: a plan clusters only what it creates."""
    if spec.clustering != "key":
        return
    version = DeltaLog(open_store(spec.target, spark=spark)).head()
    if not DeltaVersion(spark, spec.target, version).clustered:
        raise InvalidSpec(
            f"clustering: {spec.target} exists and is {_how_it_is(metadata)}; or remove the option", field="clustering"
        )


def check_names(transform: Transform, key: Sequence[str]) -> None:
    """InvalidExpression if Delta could merge no change into a target with these columns."""
    hidden = next((name for name in transform.schema.fieldNames() if name.lower() == _FILES), None)
    if key and hidden is not None:
        raise InvalidExpression(
            f"select: Spark has a column {hidden!r} of its own in each table, so Delta cannot merge changes into "
            "a target with a column of that name; give it another name with AS",
            name=hidden,
        )


def check_columns(spec: BackfillSpec, metadata: TableMetadata, transform: Transform, key: Sequence[str]) -> None:
    """TargetRefuses unless the target's columns hold whatever the build writes: a plan makes only what is missing.

    The order of the columns does not matter. Others may be there, if Delta fills them or they may be null.
    """
    there = {field.name: field for field in schema_of(metadata.schema_json).fields}
    due = {field.name: field for field in transform.schema.fields}
    whys = [_misfit(field, there.get(name), name in key) for name, field in due.items()]
    whys += [
        f"it is partitioned by {name!r}, whose bytes Delta would store as text"
        for name in metadata.partition_columns
        if name in due and isinstance(due[name].dataType, BinaryType)
    ]
    whys += [_cannot_stay(field, key) for name, field in there.items() if name not in due]
    why = next((why for why in whys if why), None)
    if why is not None:
        raise TargetRefuses(
            f"{spec.target} exists, and {why}, so the build would stop at the first row that does not fit, maybe after "
            "hours; drop the table, so that the plan creates it, or name another target; then clear the task",
            target=spec.target,
        )


def check_partitions(spec: BackfillSpec, metadata: TableMetadata, rows: DataFrame) -> None:
    """TargetRefuses if a row of the build has, in a column that partitions the target, a text that becomes null."""
    texts = texts_among(metadata.partition_columns, rows)
    if not texts:
        return
    counts = rows.agg(*(F.count_if(becomes_null(F.col(quoted(name)))) for name in texts)).collect()[0]
    for name, count in zip(texts, counts, strict=True):
        if count:
            raise TargetRefuses(
                f"{spec.target} is partitioned by {name!r}, and {count} rows have one of the texts {BECOME_NULL} "
                "there; Delta stores them as null in such a column, so the copy would differ from the source; select "
                f"{or_null(quoted(name))}, or drop the table and partition it by another column; then clear the task",
                target=spec.target,
                column=name,
                count=count,
            )


def _misfit(due: StructField, there: StructField | None, in_key: bool) -> str | None:
    """Why the column of the target does not hold all values of that of the build."""
    if there is None:
        return f"has no column {due.name!r}"
    is_, wanted = there.dataType.simpleString(), due.dataType.simpleString()
    if is_ != wanted:
        return f"its column {due.name!r} has type {is_[:200]} instead of {wanted[:200]}"
    if _LENGTH in there.metadata:
        return f"its column {due.name!r} has type {there.metadata[_LENGTH]} instead of {wanted}"
    if _GENERATED in there.metadata or _IDENTITY in there.metadata:
        return f"its column {due.name!r} is filled by Delta"
    strict = None if in_key else _not_null(there, due)
    return f"its column {strict!r} is NOT NULL" if strict else None


def _not_null(there: StructField, due: StructField | None) -> str | None:
    """The first column, or field in it, that is NOT NULL where the build's rows may have null: everywhere if the build
    does not know the column. Delta has no NOT NULL in arrays and maps.
    """
    if not there.nullable and (due is None or due.nullable):
        return there.name
    if not isinstance(there.dataType, StructType):
        return None
    known = due is not None and isinstance(due.dataType, StructType)
    dues = due.dataType.fields if known else [None] * len(there.dataType)
    inner = (_not_null(one, other) for one, other in zip(there.dataType, dues, strict=True))
    return next((f"{there.name}.{name}" for name in inner if name), None)


def _cannot_stay(there: StructField, key: Sequence[str]) -> str | None:
    """Why the target cannot have a column that the build does not know."""
    if key and there.name.lower() == _FILES:
        return f"Spark has a column {there.name!r} of its own, which its column of that name hides from Delta's MERGE"
    strict = None if any(name in there.metadata for name in _FILLED) else _not_null(there, None)
    return f"its column {strict!r}, which the build does not know, is NOT NULL" if strict else None


def _how_it_is(metadata: TableMetadata) -> str:
    if metadata.partition_columns:
        by = ", ".join(metadata.partition_columns)
        return f"partitioned by {by}, and Delta clusters no partitioned table: drop it, so that the plan creates it"
    return "not clustered: cluster it (ALTER TABLE … CLUSTER BY) and set delta.autoOptimize.autoCompact"
