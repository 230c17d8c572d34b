"""The stages of an application, as Spark's own store of its status knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stages(spark: SparkSession) -> Iterator[Any]:
    """Java's ``StageData`` of each stage that Spark still knows, the newest first."""
    gateway: Any = spark.sparkContext._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    found = spark.sparkContext._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None).iterator()
    while found.hasNext():
        yield found.next()
