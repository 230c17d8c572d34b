"""How the bytes of one side of a record, its key or its value, become a value or a reason why they cannot.

In three steps, so that what is costly is done once: ``look`` does the work, ``decoded`` and ``why`` say what came of
it. A null is null however it is read; of it nothing that they say counts.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.core.kafka.decoding import BYTES, JSON, STRING, Format
from airflow_backfill.spark.kafka.decoders import registered
from airflow_backfill.spark.kafka.json_format import JsonReading


class Reading(Protocol):
    """One way to read bytes. It is deterministic, and its reasons never hold anything of the record."""

    @property
    def version(self) -> str:
        """Another text whenever the same bytes may come out differently."""

    def look(self, raw: Column) -> Column:
        """What the bytes in ``raw`` come to; the only step that does work."""

    def decoded(self, looked: Column) -> Column:
        """The value. Of a struct each field is a column of the row."""

    def why(self, raw: Column, looked: Column) -> Column:
        """Why there is no value, as a text that goes on after "key" or "value"; null if there is one."""


class Bytes:
    """The bytes as they are."""

    version = "1"

    def look(self, raw: Column) -> Column:
        return raw

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.lit(None).cast("string")


class Text:
    """UTF-8, and nothing else: neither a byte is replaced nor a mark at the beginning removed."""

    version = "1"

    def look(self, raw: Column) -> Column:
        return raw.cast("string")

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.when(~F.is_valid_utf8(looked), F.lit("is not UTF-8"))


def reading(side: str, said: Format) -> Reading:
    """What a format stands for where Spark runs. Raises InvalidSpec for a schema, DecoderInvalid for a name."""
    if said.kind == BYTES:
        return Bytes()
    if said.kind == STRING:
        return Text()
    argument = said.argument or ""
    return JsonReading.of(side, argument) if said.kind == JSON else registered(argument)
