"""A target that its user created before the plan: its columns hold the build's rows, or it is refused."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_backfill.core.errors import TargetRefuses
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.spark.preflight.target import check_columns, check_partitions
from airflow_backfill.spark.transform.transform import Transform

SPEC = BackfillSpec.parse({"name": "build", "source": "/a", "target": "/b", "key": ["id"]})
VARCHAR = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}
CHAR = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
GENERATED = {"delta.generationExpression": "id * 2"}
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}


def field(name: str, kind: DataType, nullable: bool = True, **metadata: Any) -> StructField:
    return StructField(name, kind, nullable, metadata)


ID, NAME, AT = field("id", LongType()), field("name", StringType()), field("at", TimestampType())
SURE = field("sure", IntegerType(), nullable=False)
TAGS = field("tags", ArrayType(StringType(), containsNull=False))
STRICT = StructType([SURE, field("at", StructType([field("name", StringType(), nullable=False)]))])
WHERE = field("where", StructType([SURE, field("at", StructType([NAME]))]))
DUE = (ID, NAME, AT, SURE, TAGS, WHERE)


def checked(*there: StructField) -> None:
    schema = StructType(list(DUE))
    transform = Transform((), None, schema, schema, frozenset())
    check_columns(SPEC, TableMetadata("id", StructType(list(there)).json()), transform, ("id",))


@pytest.mark.parametrize(
    "there",
    [
        DUE,
        DUE[::-1],
        (field("id", LongType(), comment="the key"), *DUE[1:]),
        (field("id", LongType(), nullable=False), *DUE[1:]),
        (*DUE, field("note", StringType())),
        (*DUE, field("twice", LongType(), nullable=False, **GENERATED)),
        (*DUE, field("number", LongType(), nullable=False, **IDENTITY)),
        (*DUE, field("by", StringType(), nullable=False, CURRENT_DEFAULT="'me'")),
        (*DUE[:4], field("tags", ArrayType(StringType())), WHERE),
        (*DUE[:-1], field("where", StructType([field("sure", IntegerType()), field("at", StructType([NAME]))]))),
    ],
)
def test_columns_that_hold_all_rows(there: tuple[StructField, ...]) -> None:
    checked(*there)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ((ID, NAME, AT, SURE, WHERE), "has no column 'tags'"),
        ((field("ID", LongType()), *DUE[1:]), "has no column 'id'"),
        ((field("id", IntegerType()), *DUE[1:]), "'id' has type int instead of bigint"),
        ((ID, field("name", StringType(), **VARCHAR), *DUE[2:]), r"type varchar\(5\) instead of string"),
        ((ID, field("name", StringType(), **CHAR), *DUE[2:]), r"type char\(5\) instead of string"),
        ((ID, field("name", StringType("UTF8_LCASE")), *DUE[2:]), "type string collate UTF8_LCASE instead"),
        ((ID, NAME, field("at", TimestampNTZType()), *DUE[3:]), "type timestamp_ntz instead of timestamp"),
        ((ID, field("name", StringType(), nullable=False), *DUE[2:]), "'name' is NOT NULL"),
        ((*DUE[:-1], field("where", WHERE.dataType, nullable=False)), "'where' is NOT NULL"),
        ((*DUE[:-1], field("where", STRICT)), "'where.at.name' is NOT NULL"),
        ((field("id", LongType(), **GENERATED), *DUE[1:]), "'id' is filled by Delta"),
        ((field("id", LongType(), **IDENTITY), *DUE[1:]), "'id' is filled by Delta"),
        ((*DUE, field("more", STRICT)), "'more.sure', which the build does not know, is NOT NULL"),
        ((*DUE, field("_metadata", LongType())), "a column '_metadata' of its own"),
        ((*DUE, field("more", LongType(), nullable=False)), "'more', which the build does not know, is NOT NULL"),
    ],
)
def test_columns_at_which_a_round_would_stop(there: tuple[StructField, ...], why: str) -> None:
    with pytest.raises(TargetRefuses, match=f"/b exists, and .*{why}.*; drop the table, so that the plan"):
        checked(*there)


def test_bytes_that_partition_a_target_would_be_changed() -> None:
    schema = StructType([ID, field("hash", BinaryType())])
    transform = Transform((), None, schema, schema, frozenset())
    check_columns(SPEC, TableMetadata("id", schema.json(), ("id",)), transform, ("id",))
    with pytest.raises(TargetRefuses, match="it is partitioned by 'hash', whose bytes Delta would store as text"):
        check_columns(SPEC, TableMetadata("id", schema.json(), ("hash",)), transform, ("id",))


@pytest.mark.spark
def test_some_texts_would_become_null_in_a_partition(spark: SparkSession) -> None:
    values = "(1, '', 'x'), (2, NULL, 'x'), (3, 'a', ''), (4, '__HIVE_DEFAULT_PARTITION__', 'x')"
    rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, country, name)")
    for by in ((), ("id",), ("more",)):
        check_partitions(SPEC, TableMetadata("id", "{}", by), rows)
    with pytest.raises(TargetRefuses, match="by 'country', and 2 rows have one of the texts") as raised:
        check_partitions(SPEC, TableMetadata("id", "{}", ("id", "country")), rows)
    way_out = re.search(r"select (.+ AS `country`)", raised.value.message)
    assert way_out is not None
    named = rows.selectExpr("id", way_out[1])
    assert Counter(row["country"] for row in named.collect()) == {None: 3, "a": 1}
    check_partitions(SPEC, TableMetadata("id", "{}", ("id", "country")), named)
