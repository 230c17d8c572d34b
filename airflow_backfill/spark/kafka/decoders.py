"""The user's own decoders, found by name: for keys and values that are neither bytes nor strings nor JSON.

A spec names a decoder, and its code is installed where Spark runs. Code never comes from a spec, a connection or a
setting: anyone who may write those could run code. There are two ways to install a decoder:

* A package on the driver (for a Python function also on the executors; a zip in ``--py-files`` works) has an entry
  point in the group ``airflow_backfill.decoders``. It is loaded when a spec names it::

    [options.entry_points]
    airflow_backfill.decoders =
        orders = acme.kafka:ORDERS

* The user's own entry script calls ``register`` before ``main`` of this package's application.

Change the version of a decoder when it returns other values for the same bytes. Its result has a fixed type; each
field of a struct is a column. A decoder must be deterministic, and return null for bytes that it cannot decode.
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


def register(name: str, decoder: Decoder) -> None:
    """Let specs use ``decoder:<name>`` in this application; DecoderInvalid if the name has another decoder."""
    if _registered.setdefault(name, decoder) != decoder:
        raise DecoderInvalid(
            f"another decoder is registered already as {name!r}, and a name means one decoder; choose another name",
            decoder=name,
        )


def registered(name: str) -> Decoder:
    """The decoder of this name; DecoderInvalid with the known names if there is none."""
    if name in _registered:
        return _registered[name]
    installed = entry_points(group=GROUP)
    found = {entry.value: entry for entry in installed if entry.name == name}
    if len(found) > 1:
        raise DecoderInvalid(
            f"decoder {name!r} is installed more than once: {', '.join(sorted(found))}; a name means one decoder; "
            "remove all packages but one, then clear the task",
            decoder=name,
        )
    if not found:
        known = sorted({*_registered, *(entry.name for entry in installed)})
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DecoderInvalid(
            f"no decoder {name!r} is installed where Spark runs{hint} (there are: {', '.join(known) or 'none'}); "
            "correct the name, or install the decoder, then clear the task",
            decoder=name,
        )
    (entry,) = found.values()
    try:
        decoder = entry.load()
    except Exception as error:
        raise DecoderInvalid(
            f"decoder {name!r} cannot be loaded from {entry.value}: {type(error).__name__}: {str(error)[:200]}; "
            "correct its package where Spark runs, then clear the task",
            decoder=name,
        ) from error
    if not isinstance(decoder, Decoder):
        raise DecoderInvalid(
            f"decoder {name!r}: {entry.value} is a {type(decoder).__name__}, not a decoder; make the entry point name "
            "a ColumnDecoder, RecordDecoder or JavaDecoder",
            decoder=name,
        )
    return decoder
