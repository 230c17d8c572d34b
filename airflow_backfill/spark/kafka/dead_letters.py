"""Decoded records parted into good rows and dead letters, and counted. Nothing is written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from airflow_backfill.core.errors import InvalidSpec, Undecodable
from airflow_backfill.core.state.effect import Decoded
from airflow_backfill.spark.kafka.decoding import DEAD, RECORD

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
"""The table of dead letters: the whole record, why it is undecodable, and by which rules that was found."""

_SAMPLE = 5


def check_table(spark: SparkSession, location: str) -> None:
    """InvalidSpec if a table is at ``location`` that is not one of dead letters."""
    if not DeltaTable.isDeltaTable(spark, location):
        return
    found = spark.read.format("delta").load(location).schema
    names = {field.name: field.dataType for field in found.fields}
    if names != {field.name: field.dataType for field in SCHEMA.fields}:
        raise InvalidSpec(
            f"topic.undecodable: the table at {location} has the columns {', '.join(names)}, dead letters have "
            f"{', '.join(SCHEMA.names)}",
            field="topic.undecodable",
        )


def good(decoded: DataFrame) -> DataFrame:
    """The records that could be decoded."""
    return decoded.where(F.col(DEAD).isNull()).drop(DEAD)


def dead_letters(decoded: DataFrame) -> DataFrame:
    """The records that could not, as rows of the table of dead letters."""
    return decoded.where(F.col(DEAD).isNotNull()).select(f"{DEAD}.*")


def count(decoded: DataFrame, wanted: Column) -> Decoded:
    """What becomes of the records, in one pass. ``wanted`` is ``Transform.passes``, in keyed mode or TOMBSTONE."""
    dead = F.col(DEAD).isNotNull()
    (row,) = decoded.agg(F.count_if(dead), F.count_if(~dead & ~wanted)).collect()
    return Decoded(*row)


def undecodable(decoded: DataFrame, dead: int) -> Undecodable:
    """The error that stops a build without a table for its ``dead`` undecodable records."""
    places = dead_letters(decoded).select("partition", "offset", "reason").orderBy("partition", "offset")
    sample = [row.asDict() for row in places.limit(_SAMPLE).collect()]
    return Undecodable(f"{dead} records cannot be decoded, for example {sample[0]}", count=dead, sample=sample)
