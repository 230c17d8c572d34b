"""Whether the jars on the class path are those that a build needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import SparkIncomplete
from airflow_backfill.core.values.jars import check, coordinates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def check_jars(spark: SparkSession) -> None:
    """Raise SparkIncomplete, with the coordinates, if Delta's jar is missing or made for another Spark."""
    found = _loaded(spark, _DELTA)
    if found is None:
        check(spark.version, None, "")
    else:
        delta = getattr(spark.sparkContext._jvm.io.delta, "package$").__getattr__("MODULE$").VERSION()
        check(spark.version, delta, found.getProtectionDomain().getCodeSource().getLocation().getPath())


def check_kafka_jars(spark: SparkSession) -> None:
    """Raise SparkIncomplete, with the coordinates, if Spark's Kafka source is missing."""
    if _loaded(spark, _KAFKA) is None:
        needed = coordinates(spark.version, kafka=True)
        raise SparkIncomplete(
            f"Spark's Kafka source is not on the class path, so no topic can be read; set spark.jars.packages to "
            f"{','.join(needed)}, or bake these jars into the image",
            needed=needed[-1],
        )


def _loaded(spark: SparkSession, name: str) -> Any:
    """The class, or None if it is not on the class path."""
    from py4j.protocol import Py4JJavaError

    try:
        return spark.sparkContext._jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except Py4JJavaError:
        return None
