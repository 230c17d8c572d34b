"""What stops a build in its source is undone there, and the build goes on with the target that it has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import RepairGoal
from airflow_backfill.core.errors import BackfillError, ExpressionFailed, FeedOff, SchemaChanged, SourceReplaced
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SELECT = ("id", "name", "100 / n AS share")
FEED = "delta.enableChangeDataFeed"
RESTORE = "RESTORE TABLE $table TO VERSION AS OF {before}"
TROUBLES: dict[str, tuple[str, str | None, type[BackfillError]]] = {
    "another order of columns": (
        "CREATE OR REPLACE TABLE $table USING delta TBLPROPERTIES ({FEED} = true) "
        "AS SELECT n, id, part, name FROM $table",
        RESTORE,
        SourceReplaced,
    ),
    "a row on which an expression fails": (
        "UPDATE $table SET n = 0 WHERE id = 2",
        "UPDATE $table SET n = 1 WHERE id = 2",
        ExpressionFailed,
    ),
    "a column goes": ("ALTER TABLE $table DROP COLUMN n", RESTORE, SchemaChanged),
    "a column comes": ("ALTER TABLE $table ADD COLUMN extra INT", None, SchemaChanged),
    "no feed": (
        "ALTER TABLE $table SET TBLPROPERTIES ({FEED} = false)",
        "ALTER TABLE $table SET TBLPROPERTIES ({FEED} = true)",
        FeedOff,
    ),
}


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_target_is_kept(spark: SparkSession, tmp_path: Path, trouble: str, strategy: str) -> None:
    does, undoes, error = TROUBLES[trouble]
    source = Source(spark, str(tmp_path / "source"), ("id", "part", "name", "n"))
    source.sql(
        "CREATE TABLE $table (id BIGINT, part INT, name STRING, n INT) USING delta "
        f"TBLPROPERTIES ({FEED} = true, delta.columnMapping.mode = '{'name' if 'DROP' in does else 'none'}')"
    )
    source.append(0, 40)
    build = Build(source, tmp_path / "target", strategy=strategy, select=list(SELECT))
    build.read()
    build.complete()
    source.sql("UPDATE $table SET n = 7 WHERE id = 2")
    before = source.head
    source.sql(does.replace("{FEED}", FEED))
    source.sql("DELETE FROM $table WHERE id = 3")
    for _ in range(2):
        with pytest.raises(error):
            build.upstream()
    if undoes is not None:
        source.sql(undoes.format(FEED=FEED, before=before))
    if error is not SourceReplaced:
        build.recover(source.head)
        build.run(RepairGoal())
        build.verify()
        build.finish()
    source.sql("UPDATE $table SET n = 8 WHERE id = 4")
    source.sql("DELETE FROM $table WHERE id = 5")
    build.upstream()
    there = spark.read.format("delta").load(build.target)
    assert Counter(there.collect()) == Counter(source.at(source.head).selectExpr(*SELECT).collect())
