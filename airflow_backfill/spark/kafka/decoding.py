"""Decodes the records of a topic into rows for ``select`` and ``where``. Kafka and the landing table use the same code.

A decoded record has flat columns, so that ``key`` can name them: ``partition``, ``offset``, ``timestamp``, ``headers``;
then ``key``, or its fields if it is a struct; then ``value``, or its fields. The plan refuses two columns with one
name. A null key or value is null in every format (a null value is a tombstone; the text "null" is not). Two columns are
added: TOMBSTONE, and DEAD. DEAD is null for a decodable record; otherwise it is the record's row in the table of dead
letters, and key and value are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from airflow_backfill.core.errors import DecoderInvalid, InvalidSpec
from airflow_backfill.core.kafka.decoding import BYTES, DECODER, Decoding, Format
from airflow_backfill.spark.kafka.formats import Reading, reading
from airflow_backfill.spark.kafka.landing_table import RAW
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.transform.transform import OWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD = StructType([RAW[name] for name in ("partition", "offset", "timestamp", "headers")])
"""The columns that every record has, independent of its key and value."""
TOMBSTONE = OWN + "tombstone"
"""Whether the value is null: true or false, never null."""
DEAD = OWN + "dead"

_WHY = OWN + "why"
_KEY = OWN + "key"


@dataclass(frozen=True)
class Side:
    """The key or the value of records, and its format."""

    name: str
    said: Format
    reading: Reading
    kind: DataType

    @property
    def fields(self) -> list[StructField]:
        """The columns that it is decoded to."""
        return self.kind.fields if isinstance(self.kind, StructType) else [StructField(self.name, self.kind)]

    @property
    def version(self) -> str:
        """The format and its version."""
        named = str(self.said) if self.said.kind == DECODER else self.said.kind
        return f"{self.name} {named}@{self.reading.version}"

    def look(self) -> Column:
        return self.reading.look(F.col(self.name)).alias(self._looked)

    def decoded(self) -> Column:
        return self.reading.decoded(F.col(self._looked)).alias(self._decoded)

    def why(self) -> Column:
        """Why it is undecodable; null if it is decodable."""
        raw = F.col(self.name)
        why = self.reading.why(raw, F.col(self._looked))
        return F.when(raw.isNotNull(), F.concat(F.lit(f"{self.name} "), why))

    def values(self) -> list[Column]:
        """Its columns, from a row with the result of ``look``."""
        return [self.value(field.name, F.col(self._looked)) for field in self.fields]

    def value(self, name: str, looked: Column) -> Column:
        """One of its columns, from the result of ``look``."""
        decoded = self.reading.decoded(looked)
        return decoded.getField(name) if isinstance(self.kind, StructType) else decoded

    def columns(self) -> list[Column]:
        """Its columns, from a row with the result of ``decoded``."""
        sound = F.col(_WHY).isNull() & F.col(self.name).isNotNull()
        decoded = F.col(self._decoded)
        flat = isinstance(self.kind, StructType)
        return [
            F.when(sound, decoded.getField(field.name) if flat else decoded).alias(field.name) for field in self.fields
        ]

    @property
    def _looked(self) -> str:
        return f"{OWN}{self.name}_looked"

    @property
    def _decoded(self) -> str:
        return f"{OWN}{self.name}_decoded"


@dataclass(frozen=True)
class Records:
    """The decoding of a topic's records. It is the same in every session."""

    key: Side
    value: Side
    needed: frozenset[str] = frozenset()
    """Columns of the key and the order, in lower case. A record without one of them is undecodable: it has no row."""

    @property
    def schema(self) -> StructType:
        """The columns that ``select``, ``where`` and ``key`` of the spec may name."""
        return StructType([*RECORD.fields, *self.key.fields, *self.value.fields])

    @property
    def certain(self) -> bool:
        """Whether every record is decodable."""
        return self.key.said.kind == self.value.said.kind == BYTES and not self.needed

    @property
    def version(self) -> str:
        """The versions of both formats."""
        return f"{self.key.version}, {self.value.version}"

    @property
    def rules(self) -> str:
        """The versions and the columns. A build keeps to one set of rules, because others may give other rows."""
        return f"{self.version}: {self.schema.simpleString()}"

    def decode(self, raw: DataFrame) -> DataFrame:
        """Each record as one row with the columns of ``schema``, TOMBSTONE and DEAD.

        ``raw`` has the columns of Spark's Kafka source, including ``headers``. Reads nothing. Stage the rows before you
        read them more than once: each read decodes them again.
        """
        place = [F.col(field.name) for field in RECORD.fields]
        sides = (self.key, self.value)
        given = ["topic", *RECORD.names, "key", "value"]
        looked = raw.select(*given, *(side.look() for side in sides))
        whys = F.concat_ws("; ", *(side.why() for side in sides), *self._missing())
        judged = looked.select(*given, *(side.decoded() for side in sides), F.nullif(whys, F.lit("")).alias(_WHY))
        found = F.col(_WHY).alias("reason"), F.lit(self.version).alias("decoder")
        letter = F.struct("topic", *place, "key", "value", *found)
        return judged.select(
            *place,
            *self.key.columns(),
            *self.value.columns(),
            F.col("value").isNull().alias(TOMBSTONE),
            F.when(F.col(_WHY).isNotNull(), letter).alias(DEAD),
        )

    def with_key(self, raw: DataFrame, key: KeyValue) -> DataFrame:
        """The raw records of a key. Values are not decoded, so records with an undecodable value are among them."""
        looked = raw.withColumn(_KEY, self.key.look())
        columns = {f"{_KEY}_{name}": self.key.value(name, F.col(_KEY)) for name in key.names}
        return looked.withColumns(columns).where(key.matches(list(columns))).select(raw.columns)

    def _missing(self) -> list[Column]:
        """The needed columns that a record lacks; nothing if its key is undecodable, which has its own reason."""
        of_key = {field.name: column for field, column in zip(self.key.fields, self.key.values(), strict=True)}
        of_record = {"timestamp": F.col("timestamp")}
        return [
            F.when(self.key.why().isNull() & column.isNull(), F.lit(f"no {name}"))
            for name, column in (of_key | of_record).items()
            if name.lower() in self.needed
        ]


def records(spark: SparkSession, decoding: Decoding, key: Sequence[str] = (), order: str | None = None) -> Records:
    """The decoding with Spark's types. Reads nothing.

    A record without a column of ``key`` or without ``order`` is undecodable. Raises InvalidSpec if a schema cannot be
    used or two columns have the same name, DecoderInvalid for a decoder.
    """
    needed = frozenset(name.lower() for name in (*key, *([] if order is None else [order])))
    found = Records(_side(spark, "key", decoding.key), _side(spark, "value", decoding.value), needed)
    sources = [("the record", RECORD.fields), ("topic.key", found.key.fields), ("topic.value", found.value.fields)]
    taken: dict[str, str] = {}
    for source, fields in sources:
        for name in (field.name.lower() for field in fields):
            if name in taken:
                raise InvalidSpec(
                    f"{source}: its column {name!r} has the name of a field of {taken[name]}, so select could not tell "
                    "them apart; leave it out of the schema, or read the whole as string and extract the field in "
                    "select with from_json",
                    field=source,
                    column=name,
                )
            taken[name] = source
    return found


def _side(spark: SparkSession, name: str, said: Format) -> Side:
    read, field = reading(name, said), f"topic.{name}"
    try:
        # Alone, so that a decoder can read only the bytes.
        nothing = spark.createDataFrame([], StructType().add(name, BinaryType()))
        looked = nothing.select(read.look(F.col(name)).alias("it"))
        kind = looked.select(read.decoded(F.col("it")).alias("it")).schema["it"].dataType
        deterministic = looked._jdf.queryExecution().analyzed().expressions().head().deterministic()
    except Exception as error:
        raise DecoderInvalid(
            f"{field}: {said} cannot be used: {_first_line(error)}; correct the format or the decoder, then clear the "
            "task",
            field=field,
        ) from error
    if not deterministic:
        raise DecoderInvalid(
            f"{field}: {said} does not always give the same value for the same bytes, but retries need the same "
            "value; make the decoder deterministic, then clear the task",
            field=field,
        )
    return Side(name, said, read, kind)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0][:300]}"
