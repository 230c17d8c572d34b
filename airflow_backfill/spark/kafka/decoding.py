"""The records of a topic as rows that ``select`` and ``where`` can name: one code path for Kafka and the landing table.

The columns of a decoded record are flat, because a key column of a spec has to be one: ``partition``, ``offset``,
``timestamp`` and ``headers``, then ``key`` or the fields of a key that has fields, then ``value`` or the fields of a
value that has them. Two columns of one name are refused when the build is planned. A null key and a null value (a
tombstone; not the text "null") are null in whatever format. Two columns are ours: TOMBSTONE, and DEAD, which is null
unless the record is undecodable, and then is its row in the table of dead letters; key and value are null then.
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
from airflow_backfill.spark.transform.transform import OWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD = StructType([RAW[name] for name in ("partition", "offset", "timestamp", "headers")])
"""What every record has, whatever its key and value are."""
TOMBSTONE = OWN + "tombstone"
"""Whether the value is null: true or false, never null."""
DEAD = OWN + "dead"

_WHY = OWN + "why"


@dataclass(frozen=True)
class Side:
    """The key or the value of records, and what it is read as."""

    name: str
    said: Format
    reading: Reading
    kind: DataType

    @property
    def fields(self) -> list[StructField]:
        """The columns that it becomes."""
        return self.kind.fields if isinstance(self.kind, StructType) else [StructField(self.name, self.kind)]

    @property
    def version(self) -> str:
        """Which rules it is read by."""
        named = str(self.said) if self.said.kind == DECODER else self.said.kind
        return f"{self.name} {named}@{self.reading.version}"

    def look(self) -> Column:
        return self.reading.look(F.col(self.name)).alias(self._looked)

    def decoded(self) -> Column:
        return self.reading.decoded(F.col(self._looked)).alias(self._decoded)

    def why(self) -> Column:
        """Why it is undecodable, null if it is not."""
        raw = F.col(self.name)
        why = self.reading.why(raw, F.col(self._looked))
        return F.when(raw.isNotNull(), F.concat(F.lit(f"{self.name} "), why))

    def values(self) -> list[Column]:
        """Its columns, from a row that was looked at."""
        decoded = self.reading.decoded(F.col(self._looked))
        flat = isinstance(self.kind, StructType)
        return [decoded.getField(field.name) if flat else decoded for field in self.fields]

    def columns(self) -> list[Column]:
        """Its columns, from a row that holds what it was decoded to."""
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
    """How the records of a topic become rows, in every session in the same way."""

    key: Side
    value: Side
    needed: frozenset[str] = frozenset()
    """Columns of the key, in lower case, without which a record is as good as undecodable."""

    @property
    def schema(self) -> StructType:
        """The columns that ``select``, ``where`` and ``key`` of the spec may name."""
        return StructType([*RECORD.fields, *self.key.fields, *self.value.fields])

    @property
    def certain(self) -> bool:
        """Whether no record can be undecodable."""
        return self.key.said.kind == self.value.said.kind == BYTES and not self.needed

    @property
    def version(self) -> str:
        """The decoders."""
        return f"{self.key.version}, {self.value.version}"

    @property
    def rules(self) -> str:
        """By which records become rows: those that others made may differ, so that a build keeps to one."""
        return f"{self.version}: {self.schema.simpleString()}"

    def decode(self, raw: DataFrame) -> DataFrame:
        """Each record as one row with the columns of ``schema``, TOMBSTONE and DEAD.

        ``raw`` has the columns of Spark's Kafka source, ``headers`` among them. Nothing is read; whoever reads the rows
        more than once stages them, or each record is decoded as often.
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

    def _missing(self) -> list[Column]:
        """Which needed columns a record has not; nothing of one whose key cannot be decoded, which says so itself."""
        unknown = self.key.why().isNull()
        return [
            F.when(unknown & column.isNull(), F.lit(f"no {field.name}"))
            for field, column in zip(self.key.fields, self.key.values(), strict=True)
            if field.name.lower() in self.needed
        ]


def records(spark: SparkSession, decoding: Decoding, key: Sequence[str] = ()) -> Records:
    """The columns that a decoding stands for, as Spark knows them. Reads nothing.

    Where undecodable records have a table, those without one of the columns of ``key`` belong there as well. Raises
    InvalidSpec if a schema cannot be used or two columns would have one name, DecoderInvalid for a decoder.
    """
    needed = frozenset(name.lower() for name in key) if decoding.dead_letters is not None else frozenset()
    found = Records(_side(spark, "key", decoding.key), _side(spark, "value", decoding.value), needed)
    sources = [("the record", RECORD.fields), ("topic.key", found.key.fields), ("topic.value", found.value.fields)]
    taken: dict[str, str] = {}
    for source, fields in sources:
        for name in (field.name.lower() for field in fields):
            if name in taken:
                raise InvalidSpec(
                    f"{source}: its column {name!r} has the name of a field of {taken[name]}; leave it out of the "
                    "schema, or read it as string and take the field in select with from_json",
                    field=source,
                    column=name,
                )
            taken[name] = source
    return found


def _side(spark: SparkSession, name: str, said: Format) -> Side:
    read, field = reading(name, said), f"topic.{name}"
    try:
        # Alone, so that a decoder sees nothing but the bytes.
        nothing = spark.createDataFrame([], StructType().add(name, BinaryType()))
        looked = nothing.select(read.look(F.col(name)).alias("it"))
        kind = looked.select(read.decoded(F.col("it")).alias("it")).schema["it"].dataType
        deterministic = looked._jdf.queryExecution().analyzed().expressions().head().deterministic()
    except Exception as error:
        raise DecoderInvalid(f"{field}: {said} cannot be used: {_first_line(error)}", field=field) from error
    if not deterministic:
        raise DecoderInvalid(f"{field}: {said} does not always give the same value for the same bytes", field=field)
    return Side(name, said, read, kind)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0][:300]}"
