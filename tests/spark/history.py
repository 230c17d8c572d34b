"""Source tables with a history that holds every kind of commit, and what must come of reading it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from airflow_backfill.spark.target_table.net_change import OP, UPSERT
from airflow_backfill.spark.transform.transform import quoted

ROWS = 240
PLAIN = ("id", "part", "name", "n")
# No backtick: Delta itself fails to UPDATE a table with one in a column name, if it has a change feed.
ODD = ("the id", "part,of;it", "na.me", "n=(1)")


@dataclass(frozen=True)
class Source:
    """A table whose rows are ``id``, ``part``, ``name``, ``n``, whatever these columns are called in it."""

    spark: SparkSession
    path: str
    columns: tuple[str, str, str, str]

    @property
    def key(self) -> str:
        return self.columns[0]

    @property
    def head(self) -> int:
        return max(int(file.stem) for file in Path(self.path, "_delta_log").glob("*.json"))

    def at(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def rows(self, start: int, stop: int, name: str = "made", files: int = 1) -> DataFrame:
        """New rows with these ids."""
        values = ("id", "cast(id % 3 as int)", f"concat('{name}', id)", "cast(if(id % 5 = 0, null, id) as int)")
        named = [F.expr(v).alias(c) for v, c in zip(values, self.columns, strict=True)]
        return self.spark.range(start, stop, 1, files).select(*named)

    def sql(self, statement: str) -> None:
        """Run SQL with $table, $id, $part, $name and $n filled in."""
        names = {"table": f"delta.`{self.path}`"} | dict(
            zip(("id", "part", "name", "n"), map(quoted, self.columns), strict=True)
        )
        for word, name in names.items():
            statement = statement.replace(f"${word}", name)
        self.spark.sql(statement)

    def append(self, start: int, stop: int, name: str = "made") -> None:
        self.rows(start, stop, name).write.format("delta").mode("append").save(self.path)

    def merge(self, rows: DataFrame, deleted: str = "false") -> None:
        """MERGE as people write it: matched rows are updated (or deleted), others inserted."""
        k = quoted(self.key)
        (
            DeltaTable.forPath(self.spark, self.path)
            .alias("t")
            .merge(rows.alias("s"), f"t.{k} = s.{k}")
            .whenMatchedDelete(deleted)
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    def merge_nothing(self) -> None:
        """A MERGE that matches rows and changes none of them."""
        k = quoted(self.key)
        table = DeltaTable.forPath(self.spark, self.path).alias("t")
        table.merge(self.rows(0, 20).alias("s"), f"t.{k} = s.{k}").whenMatchedDelete(f"s.{k} < 0").execute()


def create(source: Source, *, vectors: bool = True, partitioned: bool = False, feed: bool = True) -> None:
    """A new table with ROWS rows in four files (or more, if partitioned)."""
    rows = source.rows(0, ROWS, files=4)
    table = DeltaTable.create(source.spark).location(source.path).addColumns(rows.schema)
    if partitioned:
        table = table.partitionedBy(source.columns[1])
    table.property("delta.enableDeletionVectors", str(vectors).lower()).property(
        "delta.enableChangeDataFeed", str(feed).lower()
    ).property("delta.columnMapping.mode", "name" if source.columns[0] != "id" else "none").execute()
    rows.write.format("delta").mode("append").save(source.path)


def live_through(source: Source) -> None:
    """One commit of each kind, in an order in which they meet."""
    source.append(1000, 1020)
    source.sql("UPDATE $table SET $name = 'updated', $n = 1 WHERE $id % 10 = 1")
    source.sql("DELETE FROM $table WHERE $id % 10 = 2")
    source.sql("DELETE FROM $table WHERE $id % 10 = 3")
    source.merge(source.rows(230, 250, "merged"), f"s.{quoted(source.key)} % 4 = 0")
    source.merge_nothing()
    source.sql("OPTIMIZE $table")
    source.sql("DELETE FROM $table WHERE $id % 10 = 4")
    source.sql("UPDATE $table SET $id = $id + 5000 WHERE $id % 10 = 5")
    source.append(2, 3, "again")
    before = source.head
    source.sql("DELETE FROM $table WHERE $part = 1")
    source.sql(f"RESTORE TABLE $table TO VERSION AS OF {before}")
    source.rows(100, 300, "over").write.format("delta").mode("overwrite").save(source.path)
    source.sql("DELETE FROM $table")
    source.append(0, 50, "anew")


def copied(past: Source, path: Path, through: int) -> Source:
    """What a table was after version ``through``."""

    def later(folder: str, names: list[str]) -> list[str]:
        versions = ((name, name.lstrip(".")[:20]) for name in names if folder.endswith("_delta_log"))
        return [name for name, version in versions if not version.isdigit() or int(version) > through]

    return replace(past, path=str(shutil.copytree(past.path, path, ignore=later)))


def live_again(source: Source, past: Source) -> None:
    """All commits that a copied table has not had yet."""
    shutil.copytree(past.path, source.path, dirs_exist_ok=True)


def vacuum(source: Source, epoch: int) -> None:
    """Leave what VACUUM leaves of a table that keeps nothing from before an epoch."""
    kept = {file.rsplit("/", 1)[-1] for e in range(epoch, source.head + 1) for file in source.at(e).inputFiles()}
    for commit in range(epoch + 1, source.head + 1):
        actions = map(json.loads, (Path(source.path) / "_delta_log" / f"{commit:020}.json").read_text().splitlines())
        kept |= {action["cdc"]["path"].rsplit("/", 1)[-1] for action in actions if "cdc" in action}
    for file in (*Path(source.path).glob("*.parquet"), *Path(source.path).glob("_change_data/*.parquet")):
        if file.name not in kept:
            file.unlink()


def clean_up_log(spark: SparkSession, table: str) -> None:
    """What is left when commits are removed up to a checkpoint, and something was committed after it."""
    jvm = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table).checkpoint()
    head = max(int(file.stem) for file in Path(table, "_delta_log").glob("*.json"))
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES (x = '1')")
    for file in Path(table, "_delta_log").iterdir():
        number = file.name.lstrip(".")[:20]
        if number.isdigit() and int(number) <= head and "checkpoint" not in file.name:
            file.unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def applied(before: DataFrame, net: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """What a target that holds ``before`` must hold after ``net``: keys replaced, deleted or added."""
    keys = [quoted(k) for k in key]
    kept = before.join(net.select(*keys), list(key), "left_anti").select(*map(quoted, before.columns))
    return kept.union(net.where(F.col(OP) == UPSERT).select(*map(quoted, before.columns)))


def difference(one: DataFrame, other: DataFrame) -> list[Row]:
    """Rows that are not equally often in both, with how much more often in the first. In one job."""
    both = one.withColumn("_more", F.lit(1)).union(other.withColumn("_more", F.lit(-1)))
    summed = both.groupBy(*map(quoted, one.columns)).agg(F.sum("_more").alias("_more"))
    return summed.where("_more <> 0").collect()
