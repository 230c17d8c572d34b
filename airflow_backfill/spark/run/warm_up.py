"""A whole small build, for nothing but the classes that it loads: Java makes an archive of them (docs/performance.md),
with which every later application starts sooner.
"""

from __future__ import annotations

import tempfile

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, FinishGoal, Goal, SnapshotGoal, VerifyGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.application import session
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting, Planner


def main() -> int:
    """Build a table of a hundred rows in a temporary folder; 0."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/source", f"{folder}/target"
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
        spark.sql(f"CREATE TABLE delta.`{source}` (id BIGINT, name STRING) USING delta {feed}")
        rows = spark.range(100).selectExpr("id", "concat('n', id) AS name")
        rows.write.format("delta").mode("append").save(source)
        spec = BackfillSpec.parse({"name": "warm_up", "source": source, "target": target, "key": ["id"]})
        Planner(spark, spec, 1, Attempt(1, "plan")).plan(OnExisting.RESUME)
        spark.sql(f"UPDATE delta.`{source}` SET name = 'other' WHERE id < 5")
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id > 95")
        size, lag = RoundSize(), MaxLag(epochs=0)
        log: tuple[Goal, ...] = (ConsumeLogGoal(size, lag, 9), CatchUpGoal(size, lag, 9))
        shell = Shell(spark, target)
        for number, task in enumerate((SnapshotGoal(0, 1, size), *log, VerifyGoal(), FinishGoal()), start=2):
            shell.run(run(task, Attempt(number, str(number))))
    spark.stop()
    return 0
