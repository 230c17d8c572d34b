"""Decodes the bytes of a record's key or value, to a value or to the reason why that is impossible.

In two steps, so that the costly work is done once: ``look`` does the work; ``decoded`` and ``why`` read its result.
Null bytes are a null value in every format, and results for them are ignored.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.core.kafka.decoding import BYTES, JSON, STRING, Format
from airflow_backfill.spark.kafka.decoders import registered
from airflow_backfill.spark.kafka.json_format import JsonReading


class Reading(Protocol):
    """One way to decode bytes. It is deterministic, and its reasons never contain data of the record."""

    @property
    def version(self) -> str:
        """Changes whenever the same bytes may give another value."""

    def look(self, raw: Column) -> Column:
        """The result of the costly work on the bytes in ``raw``."""

    def decoded(self, looked: Column) -> Column:
        """The value. Each field of a struct is a column of the row."""

    def why(self, raw: Column, looked: Column) -> Column:
        """Why there is no value: a text that continues "key " or "value ". Null if there is a value."""


class Bytes:
    """The bytes, unchanged."""

    version = "1"

    def look(self, raw: Column) -> Column:
        return raw

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.lit(None).cast("string")


class Text:
    """Strict UTF-8: no byte is replaced, and a byte order mark is kept."""

    version = "1"

    def look(self, raw: Column) -> Column:
        return raw.cast("string")

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.when(~F.is_valid_utf8(looked), F.lit("is not UTF-8"))


def reading(side: str, said: Format) -> Reading:
    """The reading of a format. Raises InvalidSpec for an invalid schema, DecoderInvalid for an unknown decoder."""
    if said.kind == BYTES:
        return Bytes()
    if said.kind == STRING:
        return Text()
    argument = said.argument or ""
    return JsonReading.of(side, argument) if said.kind == JSON else registered(argument)
