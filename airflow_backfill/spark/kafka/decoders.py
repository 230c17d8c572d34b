"""The user's own decoders, found by name: for keys and values that are neither bytes nor strings nor JSON.

See ``transform.installed`` for how to install them. The group of entry points is ``airflow_backfill.decoders``::

    [options.entry_points]
    airflow_backfill.decoders =
        orders = acme.kafka:ORDERS

Change the version of a decoder when it returns other values for the same bytes. Its result has a fixed type; each
field of a struct is a column. A decoder must be deterministic, and return null for bytes that it cannot decode.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType, _make_type_verifier

from airflow_backfill.core.errors import DecoderInvalid
from airflow_backfill.spark.transform.installed import Registry


class Decoder:
    """The base of the three kinds of decoders. See ``formats.Reading``."""

    version: str

    def look(self, raw: Column) -> Column:
        raise NotImplementedError

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.when(self.decoded(looked).isNull(), F.lit("makes its decoder return null"))


@dataclass(frozen=True)
class ColumnDecoder(Decoder):
    """A function from the column of bytes to a column, with Spark's functions or a pandas or Arrow UDF.

    Null means undecodable. An error fails the task and the round: use the ``try_`` forms of Spark's functions, and
    catch errors of single records in a UDF that gets many records at once.
    """

    function: Callable[[Column], Column]
    version: str

    def look(self, raw: Column) -> Column:
        return self.function(raw)


@dataclass(frozen=True)
class RecordDecoder(Decoder):
    """A Python function from the bytes of one record to a value of the type ``returns`` (Spark's DDL).

    Return a dict or a tuple for several columns, and a datetime with a zone for a TIMESTAMP. None, an exception or a
    value of another type makes the record undecodable; the name of the exception becomes the reason. OSError (for
    example, a schema registry that does not answer) and MemoryError are not about the record: they fail the task.
    """

    function: Callable[[bytes], Any]
    returns: str
    version: str

    def look(self, raw: Column) -> Column:
        function, kind = self.function, DataType.fromDDL(self.returns)
        # Without the check, Spark would turn a value of another type into null.
        check = _make_type_verifier(kind)

        def attempt(record: bytes | None) -> tuple[Any, str | None]:
            if record is None:
                return None, None
            try:
                decoded = function(bytes(record))
                check(decoded)
                return decoded, None
            except (OSError, MemoryError):
                raise
            except Exception as error:
                return None, type(error).__name__

        # Arrow converts values of other types by its own rules.
        outcome = StructType().add("decoded", kind).add("raised", StringType())
        return F.udf(attempt, outcome, useArrow=False)(raw)

    def decoded(self, looked: Column) -> Column:
        return looked.getField("decoded")

    def why(self, raw: Column, looked: Column) -> Column:
        raised = looked.getField("raised")
        return F.coalesce(F.concat(F.lit("makes its decoder raise "), raised), super().why(raw, looked))


@dataclass(frozen=True)
class JavaDecoder(Decoder):
    """A class on Spark's class path: a ``UDF1`` from bytes to a value of the type ``returns`` (Spark's DDL).

    Null means undecodable. An exception fails the task: Spark cannot catch it for one record.
    """

    class_name: str
    returns: str
    version: str

    def look(self, raw: Column) -> Column:
        name = "airflow_backfill_" + re.sub(r"\W", "_", self.class_name)
        session = SparkSession.active()
        session.udf.registerJavaFunction(name, self.class_name, DataType.fromDDL(self.returns))
        return F.call_function(name, raw)


DECODERS = Registry("decoder", "airflow_backfill.decoders", Decoder, DecoderInvalid)
register = DECODERS.register
"""``register(name, decoder)``: for an entry script of the user's own."""
registered = DECODERS.find
