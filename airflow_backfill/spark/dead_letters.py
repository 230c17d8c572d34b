"""Decoded records parted into good rows and dead letters, and counted. Nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from airflow_backfill.core.errors import Undecodable
from airflow_backfill.spark.decoding import DEAD, RECORD

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


@dataclass(frozen=True, slots=True)
class Counts:
    """Records, each counted once."""

    kept: int
    dead: int
    filtered: int
    """Decoded, and not wanted."""

    @property
    def read(self) -> int:
        return self.kept + self.dead + self.filtered


def good(decoded: DataFrame) -> DataFrame:
    """The records that could be decoded."""
    return decoded.where(F.col(DEAD).isNull()).drop(DEAD)


def dead_letters(decoded: DataFrame) -> DataFrame:
    """The records that could not, as rows of the table of dead letters."""
    return decoded.where(F.col(DEAD).isNotNull()).select(f"{DEAD}.*")


def count(decoded: DataFrame, wanted: Column) -> Counts:
    """What the records are, in one pass. ``wanted`` is ``Transform.passes``, in keyed mode or TOMBSTONE."""
    dead = F.col(DEAD).isNotNull()
    kept, filtered = F.when(~dead, wanted), F.when(~dead, ~wanted)
    (row,) = decoded.agg(F.count_if(kept), F.count_if(dead), F.count_if(filtered)).collect()
    return Counts(*row)


def undecodable(decoded: DataFrame, dead: int) -> Undecodable:
    """The error that stops a build without a table for its ``dead`` undecodable records."""
    places = dead_letters(decoded).select("partition", "offset", "reason").orderBy("partition", "offset")
    sample = [row.asDict() for row in places.limit(_SAMPLE).collect()]
    return Undecodable(f"{dead} records cannot be decoded, for example {sample[0]}", count=dead, sample=sample)
