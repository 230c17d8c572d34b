"""Splits decoded records into good rows and dead letters, counts them, and stores dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from airflow_backfill.core.errors import InvalidSpec, TargetExists, Undecodable
from airflow_backfill.core.state.effect import Decoded
from airflow_backfill.spark.kafka.decoding import DEAD, RECORD
from airflow_backfill.spark.kafka.memory import same_values
from airflow_backfill.spark.session.creation import check_free, create_table, has_table
from airflow_backfill.spark.session.failure import conflict_of
from airflow_backfill.spark.session.redaction import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        *RECORD.fields,
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("reason", StringType()),
        StructField("decoder", StringType()),
    ]
)
"""The table of dead letters: the whole record, why it is undecodable, and the versions of the decoders."""

TRIES = 20
"""Tries to add dead letters. Each one that fails is a commit of another writer."""
_SAMPLE = 5


def check_table(spark: SparkSession, location: str) -> None:
    """InvalidSpec if ``location`` has other files, or a table with other columns than dead letters."""
    if not has_table(spark, location):
        try:
            check_free(spark, location)
        except TargetExists as error:
            raise InvalidSpec(f"topic.undecodable: {error.message}", field="topic.undecodable") from error
        return
    found = spark.read.format("delta").load(location).schema
    names = {field.name: field.dataType for field in found.fields}
    if names != {field.name: field.dataType for field in SCHEMA.fields}:
        raise InvalidSpec(
            f"topic.undecodable: the table at {location} cannot store dead letters: its columns are "
            f"{', '.join(names)}, but dead letters need {', '.join(SCHEMA.names)}; name another location, or move the "
            "table away",
            field="topic.undecodable",
        )


def good(decoded: DataFrame) -> DataFrame:
    """The decodable records."""
    return decoded.where(F.col(DEAD).isNull()).drop(DEAD)


def dead_letters(decoded: DataFrame) -> DataFrame:
    """The undecodable records, as rows of the table of dead letters."""
    return decoded.where(F.col(DEAD).isNotNull()).select(f"{DEAD}.*")


def add(spark: SparkSession, location: str, letters: DataFrame) -> None:
    """Add these dead letters to the table at ``location``, unless it has them already. Other lanes and builds may add
    theirs meanwhile. A topic that was created again has other records at the same offsets.
    """
    create_table(spark, location, SCHEMA, {})
    table = DeltaTable.forPath(spark, location)
    for left in reversed(range(TRIES)):
        try:
            same = same_values("t", "s", ("topic", "partition", "offset", "timestamp", "key", "value"))
            table.alias("t").merge(letters.alias("s"), same).whenNotMatchedInsertAll().execute()
            return
        except Exception as error:
            if not left or conflict_of(error) is None:
                raise


def count(decoded: DataFrame, wanted: Column) -> Decoded:
    """Count records that become no row, in one pass. ``wanted`` is ``Transform.passes``; with a key, or TOMBSTONE."""
    dead = F.col(DEAD).isNotNull()
    (row,) = decoded.agg(F.count_if(dead), F.count_if(~dead & ~wanted)).collect()
    return Decoded(*row)


def undecodable(decoded: DataFrame, dead: int) -> Undecodable:
    """The error for ``dead`` undecodable records, if the build has no table for them."""
    places = dead_letters(decoded).select("partition", "offset", "reason").orderBy("partition", "offset")
    sample = [row.asDict() | {"reason": shown(row["reason"])} for row in places.limit(_SAMPLE).collect()]
    return Undecodable(
        f"{dead} records cannot be decoded, for example {sample[0]}, so their rows would be missing; to go on without "
        "them, run 'table-backfill dead-letter TARGET', which puts them into a table beside the target, and clear the "
        "task; or correct topic.key or topic.value and plan again with on_existing='restart'",
        count=dead,
        sample=sample,
    )
