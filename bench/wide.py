"""How the log of the same changes grows with the columns of the table."""

from __future__ import annotations

import shutil

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.backlog import Backlog
from bench.ratio import Race
from bench.tables import Tables

COLUMNS = (10, 100, 300, 1_000)
ROWS, EPOCHS, CHANGES = 20_000, 4, 500


def wide(spark: SparkSession, tables: Tables, columns: int, rounds: int) -> Race:
    """``EPOCHS`` updates of ``CHANGES`` rows in a table of ``columns`` columns, of which one is the key."""
    source = _source(spark, tables, columns)
    names = spark.read.format("delta").load(source).columns
    backlog = Backlog(f"{EPOCHS} pending epochs, {columns} columns", source, 1, EPOCHS, ["id"], names)
    return backlog.race(spark, tables, rounds, warm_up_rounds=2)


def _source(spark: SparkSession, tables: Tables, columns: int) -> str:
    path = tables.folder / f"wide-{columns}" / "rows"
    if path.is_dir():
        return str(path)
    unfinished = path.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    kinds = (F.col("id"), F.col("id").cast("string"), F.col("id") / 7)
    values = [(kinds[number % 3]).alias(f"c{number}") for number in range(columns - 1)]
    writer = spark.range(ROWS).select("id", *values).write.format("delta")
    writer.option("delta.enableChangeDataFeed", "true").save(str(unfinished))
    for epoch in range(EPOCHS):
        spark.sql(f"UPDATE delta.`{unfinished}` SET c0 = c0 + 1 WHERE id % {ROWS // CHANGES} = {epoch}")
    unfinished.rename(path)
    return str(path)
