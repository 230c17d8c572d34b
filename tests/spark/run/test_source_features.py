"""Whole builds of sources with each feature that Delta has for tables, and with every type of column."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta.tables import DeltaTable, IdentityGenerator
from pyspark.sql import SparkSession

from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = [pytest.mark.spark, pytest.mark.soak]

COLUMNS = "id BIGINT, part INT, name STRING, n INT"
FEED = "delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true"
TYPES = (
    "s STRUCT<a: INT, b: ARRAY<STRING>, m: MAP<STRING, DOUBLE>>, b BINARY, d DECIMAL(38,18), tn TIMESTAMP_NTZ, "
    "ts TIMESTAMP, f FLOAT"
)
VALUES = (
    "UPDATE $t SET s = named_struct('a', 1, 'b', array('x', null), 'm', map('k', double('NaN'))), b = X'00FF', "
    "d = 1.5, tn = timestamp_ntz'2020-01-01 00:00:00', ts = timestamp'2020-01-01', f = -0.0 WHERE id < 20"
)
PARTS = "UPDATE $t SET p = concat('a b/c%=', cast(id % 3 AS string), 'é'), d = date'2020-01-01' WHERE id % 2 = 0"


def table(columns: str = COLUMNS, more: str = "", cut: str = "") -> str:
    return f"CREATE TABLE $t ({columns}) USING delta {cut} TBLPROPERTIES ({FEED}{more})"


CASES: dict[str, tuple[str, str, str]] = {
    "clustering": (table(cut="CLUSTER BY (id)"), "", "OPTIMIZE $t"),
    "row tracking": (table(more=", delta.enableRowTracking = true"), "", "OPTIMIZE $t"),
    "in-commit timestamps": (table(), "", "ALTER TABLE $t SET TBLPROPERTIES (delta.enableInCommitTimestamps = true)"),
    "checkpoints in parts": (table(more=", delta.checkpointPolicy = 'v2', delta.checkpointInterval = 2"), "", ""),
    "type widening": (
        table(more=", delta.enableTypeWidening = true"),
        "ALTER TABLE $t ALTER COLUMN n TYPE BIGINT",
        "UPDATE $t SET n = 5000000000 WHERE id = 9",
    ),
    "variant": (
        table(f"{COLUMNS}, v VARIANT"),
        "UPDATE $t SET v = parse_json('{\"a\": 1}') WHERE id < 20",
        "UPDATE $t SET v = parse_json('{\"a\": [1, 2]}') WHERE id < 9",
    ),
    "types": (table(f"{COLUMNS}, {TYPES}"), VALUES, "UPDATE $t SET f = 1.5, d = null WHERE id < 9"),
    "constraint": (table(), "ALTER TABLE $t ADD CONSTRAINT positive CHECK (id >= 0)", ""),
    "default": (
        table(
            "id BIGINT, part INT, name STRING DEFAULT 'x', n INT", ", delta.feature.allowColumnDefaults = 'supported'"
        ),
        "",
        "INSERT INTO $t (id, part, n) VALUES (5000, 1, 2)",
    ),
    "not null dropped": (
        table("id BIGINT NOT NULL, part INT, name STRING NOT NULL, n INT"),
        "",
        "ALTER TABLE $t ALTER COLUMN name DROP NOT NULL; ALTER TABLE $t ALTER COLUMN id DROP NOT NULL; "
        "UPDATE $t SET name = null WHERE id % 5 = 0",
    ),
    "varchar": (table("id BIGINT, part INT, name VARCHAR(40), n INT"), "", ""),
    "partitions": (
        table(f"{COLUMNS}, d DATE, p STRING", cut="PARTITIONED BY (p, d)"),
        PARTS,
        "DELETE FROM $t WHERE n = 8",
    ),
    "dropped column": (
        table(f"{COLUMNS}, x INT", ", delta.columnMapping.mode = 'name'"),
        "ALTER TABLE $t DROP COLUMN x",
        "",
    ),
    "renamed column": (
        table(f"{COLUMNS}, x INT", ", delta.columnMapping.mode = 'name'"),
        "ALTER TABLE $t RENAME COLUMN x TO y",
        "UPDATE $t SET y = 3 WHERE id < 9",
    ),
    "mapping by id": (table(more=", delta.columnMapping.mode = 'id'"), "", "OPTIMIZE $t"),
    "mapping switched on": (table(), "", "ALTER TABLE $t SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"),
    "vectors dropped": (table(), "DELETE FROM $t WHERE id % 7 = 5", "ALTER TABLE $t DROP FEATURE deletionVectors"),
    "vectors purged": (table(), "DELETE FROM $t WHERE id % 7 = 5", "REORG TABLE $t APPLY (PURGE)"),
    "overwritten": (table(), "", "INSERT OVERWRITE $t SELECT id, 1, 'x', 2 FROM range(50)"),
    "replaced in part": (table(), "", "INSERT INTO $t REPLACE WHERE id < 20 SELECT id, 1, 'x', 2 FROM range(20)"),
    "clustered later": (table(), "", "ALTER TABLE $t CLUSTER BY (id)"),
    "put back": (table(), "", "RESTORE TABLE $t TO VERSION AS OF 1"),
    "random folders": (table(more=", delta.randomizeFilePrefixes = true"), "", "OPTIMIZE $t"),
    "identity": ("identity", "", ""),
    "generated": ("generated", "", ""),
    "converted": ("converted", "", ""),
    "clone": ("clone", "", "OPTIMIZE $t"),
}


class Headed(Source):
    """Its folder has files that are named as neither commits nor plain checkpoints."""

    @property
    def head(self) -> int:
        version: int = DeltaTable.forPath(self.spark, self.path).history(1).collect()[0]["version"]
        return version


def create(source: Source, how: str, other: Source) -> None:
    rows = source.rows(0, 200, files=2)
    builder = DeltaTable.create(source.spark).location(source.path).addColumns(rows.schema)
    builder = builder.property("delta.enableChangeDataFeed", "true")
    if how == "clone":
        source.sql(f"CREATE TABLE $table SHALLOW CLONE delta.`{other.path}`")
        return
    if how == "converted":
        rows.write.parquet(source.path)
        source.spark.sql(f"CONVERT TO DELTA parquet.`{source.path}`")
        source.sql(f"ALTER TABLE $table SET TBLPROPERTIES ({FEED})")
        return
    if how == "identity":
        builder.addColumn("k", "BIGINT", generatedByDefaultAs=IdentityGenerator()).execute()
    elif how == "generated":
        builder.addColumn("g", "BIGINT", generatedAlwaysAs="id * 2").execute()
    else:
        source.sql(how.replace("$t", "$table"))
    rows.createOrReplaceTempView("made_rows")
    source.sql("INSERT INTO $table (id, part, name, n) SELECT id, part, name, n FROM made_rows")


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement", "chain"])
@pytest.mark.parametrize("case", CASES)
def test_a_whole_build(spark: SparkSession, tmp_path: Path, made: Source, case: str, strategy: str) -> None:
    how, before, after = CASES[case]
    source = Headed(spark, str(tmp_path / "source"), ("id", "part", "name", "n"))
    create(source, how, made)
    if before:
        source.sql(before.replace("$t", "$table"))
    build = Build(source, tmp_path / "target", strategy=strategy)
    build.read()
    source.sql("UPDATE $table SET name = 'later' WHERE id % 7 = 1")
    source.sql("DELETE FROM $table WHERE id % 7 = 2")
    source.sql("INSERT INTO $table (id, part, name, n) SELECT id, 0, 'new', 1 FROM range(1000, 1010)")
    for statement in filter(None, after.split("; ")):
        source.sql(statement.replace("$t", "$table"))
    source.sql("DELETE FROM $table WHERE id % 7 = 3")
    build.complete()
    build.assert_equal_in_spark(source.head)


KEYS = {
    "timestamp": "timestampadd(SECOND, id * 7919 * 40000, timestamp'0001-01-02 00:00:00')",
    "date": "date_add(date'1500-01-01', cast(id * 997 AS int))",
    "decimal": "cast(id * 1.0000000001 AS decimal(38, 10)) - 50",
    "string": "concat(repeat('ü ', cast(id AS int) % 40), ' ', id, ' ')",
}
WITHOUT_ORDER = {
    "timestamp_ntz": "timestampadd(SECOND, id * 7919 * 4000, timestamp_ntz'1000-01-02 00:00:00')",
    "binary": "cast(cast(id AS string) AS binary)",
}


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [*(("arrangement", kind) for kind in KEYS), *(("snapshot", kind) for kind in (*KEYS, *WITHOUT_ORDER))],
)
def test_a_key_of_each_type(spark: SparkSession, tmp_path: Path, strategy: str, kind: str) -> None:
    source = Source(spark, str(tmp_path / "source"), ("k", "part", "name", "n"))
    values = f"{(KEYS | WITHOUT_ORDER)[kind]} AS k, 1 AS part, cast(id AS string) AS name, cast(id AS int) AS n"
    source.sql(f"CREATE TABLE $table USING delta TBLPROPERTIES ({FEED}) AS SELECT {values} FROM range(200)")
    changed(Build(source, tmp_path / "target", strategy=strategy, select=["k", "name", "n"]))


LONG = "id, repeat(concat('x', id), 500000) AS name, cast(id AS int) AS n"
WIDE = "id, 'x' AS name, cast(id AS int) AS n, " + ", ".join(f"cast(id + {n} AS string) AS c{n}" for n in range(1_500))


@pytest.mark.parametrize("values", [LONG, WIDE], ids=["long values", "many columns"])
def test_large_rows(spark: SparkSession, tmp_path: Path, values: str) -> None:
    source = Source(spark, str(tmp_path / "source"), ("id", "part", "name", "n"))
    source.sql(f"CREATE TABLE $table USING delta TBLPROPERTIES ({FEED}) AS SELECT {values} FROM range(60)")
    changed(Build(source, tmp_path / "target"))


def changed(build: Build) -> None:
    build.read()
    build.source.sql("UPDATE $table SET name = 'later' WHERE n % 3 = 0")
    build.source.sql("DELETE FROM $table WHERE n % 5 = 1")
    build.complete()
    build.assert_equal_in_spark(build.source.head)
