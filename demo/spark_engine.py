"""Commits with Spark: deletes, updates and merges write deletion vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delta.exceptions import DeltaConcurrentModificationException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from demo.dialect import file_bytes, literal, matching
from demo.journal import Operation, Row
from demo.session import session
from demo.tpch import TABLES

SOURCE = "writer_changes"


class SparkEngine:
    """A small JVM, or a session with its own settings in the running one."""

    conflicts: tuple[type[Exception], ...] = (DeltaConcurrentModificationException,)

    def __init__(self, tables: Path) -> None:
        self._tables = tables.absolute()
        self._spark = session("writer").newSession()

    def apply(self, operation: Operation, marker: str) -> None:
        self._spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", marker)
        path = self._tables / operation.table
        table = f"delta.`{path}`"
        key = TABLES[operation.table].key
        match operation.kind:
            case "append":
                self._frame(path, operation.upserts).write.format("delta").mode("append").save(str(path))
            case "delete":
                self._spark.sql(f"DELETE FROM {table} WHERE {matching(key, operation.deletes)}")
            case "update":
                keys = [tuple(row[column] for column in key) for row in operation.upserts]
                assignments = ", ".join(f"{name} = {literal(to)}" for name, to in (operation.assignments or {}).items())
                self._spark.sql(f"UPDATE {table} SET {assignments} WHERE {matching(key, keys)}")
            case "merge":
                self._merge(path, key, operation)
            case "optimize":
                self._spark.conf.set("spark.databricks.delta.optimize.maxFileSize", file_bytes(path))
                self._spark.sql(f"OPTIMIZE {table}")

    def _merge(self, path: Path, key: tuple[str, ...], operation: Operation) -> None:
        keys = [tuple(row[column] for column in key) for row in operation.upserts] + list(operation.deletes)
        gone = [dict(zip(key, each, strict=True)) for each in operation.deletes]
        upserts = self._frame(path, operation.upserts).withColumn("gone", F.lit(False))
        upserts.union(self._frame(path, gone).withColumn("gone", F.lit(True))).createOrReplaceTempView(SOURCE)
        same = " AND ".join(f"t.{column} = s.{column}" for column in key)
        columns = [column for column in upserts.columns if column != "gone"]
        touched = matching([f"t.{key[0]}"], {each[:1] for each in keys})
        self._spark.sql(
            f"MERGE INTO delta.`{path}` t USING {SOURCE} s ON {same} AND {touched} "
            "WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{column} = s.{column}' for column in columns)} "
            f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{column}' for column in columns)})"
        )

    def _frame(self, path: Path, rows: Sequence[Row]) -> DataFrame:
        """The rows with the table's columns, all nullable: a row to delete has only its key."""
        fields = self._spark.read.format("delta").load(str(path)).schema
        schema = StructType([StructField(field.name, field.dataType) for field in fields])
        return self._spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)
