"""Decoders of the user's own, by name: for what is neither bytes nor text nor JSON.

A spec names a decoder; what the name stands for is installed where Spark runs, and can come from nowhere else: never
from a spec, a connection or a setting, in which a path of code would be code for whoever may write there. There are
two ways to install one. A package that is on the driver (and, for a Python function, on the executors), also as a zip
in ``--py-files``, has an entry point in the group ``airflow_backfill.decoders``, which is loaded when a spec names it::

    [options.entry_points]
    airflow_backfill.decoders =
        orders = acme.kafka:ORDERS

Or an entry script of the user's own calls ``register`` before it calls ``main`` of this package's application.

A decoder has a version, and whoever lets it give another value for the same bytes changes it. What it gives has a type
that is known before anything is read; of a struct each field is a column. It must be deterministic, as far as Spark
knows, and give null for what it cannot decode.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType, _make_type_verifier

from airflow_backfill.core.errors import DecoderInvalid

GROUP = "airflow_backfill.decoders"

_registered: dict[str, Decoder] = {}


class Decoder:
    """What the three kinds have in common."""

    version: str

    def look(self, raw: Column) -> Column:
        raise NotImplementedError

    def decoded(self, looked: Column) -> Column:
        return looked

    def why(self, raw: Column, looked: Column) -> Column:
        return F.when(self.decoded(looked).isNull(), F.lit("made its decoder return null"))


@dataclass(frozen=True)
class ColumnDecoder(Decoder):
    """A function from the column of bytes to another one, made of Spark's functions or a pandas or Arrow UDF.

    Null says that a record is undecodable. An error fails the task and with it the round: Spark's own functions have
    ``try_`` forms, and a UDF that is given many records at once has to catch what one of them raises.
    """

    function: Callable[[Column], Column]
    version: str

    def look(self, raw: Column) -> Column:
        return self.function(raw)


@dataclass(frozen=True)
class RecordDecoder(Decoder):
    """A Python function from the bytes of one record to a value of the type ``returns``, in Spark's DDL.

    A dict or a tuple for several columns, a datetime with a zone for a TIMESTAMP. None and whatever it raises make the
    record undecodable, the latter with the name of the exception as the reason; so does a value of another type. Two
    kinds of errors are not about the record, and fail the task: OSError (a registry that does not answer) and
    MemoryError.
    """

    function: Callable[[bytes], Any]
    returns: str
    version: str

    def look(self, raw: Column) -> Column:
        function, kind = self.function, DataType.fromDDL(self.returns)
        # What does not fit its type would be null.
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

        # Not by Arrow, which has rules of its own for what does not fit.
        outcome = StructType().add("decoded", kind).add("raised", StringType())
        return F.udf(attempt, outcome, useArrow=False)(raw)

    def decoded(self, looked: Column) -> Column:
        return looked.getField("decoded")

    def why(self, raw: Column, looked: Column) -> Column:
        raised = looked.getField("raised")
        return F.coalesce(F.concat(F.lit("makes its decoder raise "), raised), super().why(raw, looked))


@dataclass(frozen=True)
class JavaDecoder(Decoder):
    """A class on Spark's class path, a ``UDF1`` from bytes to a value of the type ``returns``, in Spark's DDL.

    Null says that a record is undecodable; what it throws fails the task, as Spark gives no way to catch it.
    """

    class_name: str
    returns: str
    version: str

    def look(self, raw: Column) -> Column:
        name = "airflow_backfill_" + re.sub(r"\W", "_", self.class_name)
        session = SparkSession.active()
        session.udf.registerJavaFunction(name, self.class_name, DataType.fromDDL(self.returns))
        return F.call_function(name, raw)


def register(name: str, decoder: Decoder) -> None:
    """Let specs say ``decoder:<name>`` in this application; DecoderInvalid if the name is taken by another one."""
    if _registered.setdefault(name, decoder) != decoder:
        raise DecoderInvalid(f"a decoder {name!r} is registered already", decoder=name)


def registered(name: str) -> Decoder:
    """The decoder of this name, or DecoderInvalid with those there are."""
    if name in _registered:
        return _registered[name]
    installed = entry_points(group=GROUP)
    found = {entry.value: entry for entry in installed if entry.name == name}
    if len(found) > 1:
        raise DecoderInvalid(f"decoder {name!r} is installed more than once: {', '.join(sorted(found))}", decoder=name)
    if not found:
        known = sorted({*_registered, *(entry.name for entry in installed)})
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DecoderInvalid(
            f"no decoder {name!r} is installed where Spark runs{hint} (there are: {', '.join(known) or 'none'})",
            decoder=name,
        )
    (entry,) = found.values()
    try:
        decoder = entry.load()
    except Exception as error:
        raise DecoderInvalid(
            f"decoder {name!r} cannot be loaded from {entry.value}: {type(error).__name__}: {str(error)[:200]}",
            decoder=name,
        ) from error
    if not isinstance(decoder, Decoder):
        raise DecoderInvalid(f"{entry.value} is no decoder but a {type(decoder).__name__}", decoder=name)
    return decoder
