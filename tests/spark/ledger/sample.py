"""Delta logs as Spark writes them, and what Spark says is in them."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill.ledger.hadoop_store import HadoopStore
from airflow_backfill.ledger.location import Location
from tests.ledger.contract import CHECKS

COLUMNS = "id BIGINT, part BIGINT, name STRING"
ROWS = "SELECT id, id % 3 AS part, concat('name ', id) AS name FROM range({}, {}, 1, 2)"


def append(spark: SparkSession, path: str, first: int, end: int, seq: int) -> None:
    writer = spark.sql(ROWS.format(first, end)).write.format("delta").mode("append")
    writer = writer.option("txnAppId", "build-1/0/0").option("txnVersion", seq)
    writer.option("userMetadata", json.dumps({"seq": seq, "note": "ü → \n end"})).save(path)


def change_a_lot(spark: SparkSession, path: str) -> None:
    """A table with a feed and deletion vectors, and one commit of every kind that matters."""
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING delta PARTITIONED BY (part) TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    append(spark, path, 0, 1000, 1)
    append(spark, path, 1000, 1500, 2)
    spark.sql(
        f"MERGE INTO {table} t USING ({ROWS.format(1400, 1700)}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'changed' WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM {table} WHERE part = 2")
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 60 days')")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 3")
    append(spark, path, 2000, 2000, 3)


def checkpoint_often(spark: SparkSession, path: str) -> None:
    """A table with the newer features: commit timestamps, v2 checkpoints, column mapping, clustering."""
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING delta CLUSTER BY (id) TBLPROPERTIES "
        "('delta.checkpointPolicy' = 'v2', 'delta.enableInCommitTimestamps' = 'true', "
        "'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', "
        "'delta.checkpointInterval' = '2')"
    )
    for number in range(3):
        append(spark, path, number * 10, number * 10 + 10, number + 1)


def described(spark: SparkSession, path: str) -> dict[str, Any]:
    """What Spark reports of the table: its history, the rows of every version, protocol and metadata."""
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    jvm: Any = spark._jvm
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).update(
        False, jvm.scala.Option.empty(), jvm.scala.Option.empty()
    )
    protocol = json.loads(snapshot.protocol().json())["protocol"]
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    return {
        "head": snapshot.version(),
        "protocol": protocol,
        "metadata": metadata,
        "commits": {
            str(row["version"]): {
                "timestamp": int(row["timestamp"].timestamp() * 1000),
                "operation": row["operation"],
                "metrics": row["operationMetrics"],
                "user_metadata": row["userMetadata"],
                "rows": spark.read.format("delta").option("versionAsOf", row["version"]).load(path).count(),
            }
            for row in history
        },
    }


def contract_results(spark: SparkSession, folder: Path) -> dict[str, str]:
    results = {}
    for check in CHECKS:
        store = HadoopStore(spark, Location("file", "", str(folder / check.__name__)))
        try:
            check(store)
            results[check.__name__] = "kept"
        except Exception:
            results[check.__name__] = traceback.format_exc()
    return results


def write(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Make two tables below the folder; what Spark says of them, and how the store on Hadoop keeps the contract."""
    change_a_lot(spark, str(folder / "changed"))
    checkpoint_often(spark, str(folder / "checkpointed"))
    expected = {name: described(spark, str(folder / name)) for name in ("changed", "checkpointed")}
    return {**expected, "contract": contract_results(spark, folder / "stores")}
