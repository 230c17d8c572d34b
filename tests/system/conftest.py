"""The session of the Spark tests serves the oracles here, too; the broker is that of the Kafka tests."""

import pytest
from pyspark.sql import SparkSession

from tests.kafka.conftest import broker, topic
from tests.spark.conftest import spark
from tests.system.workload import Workload

__all__ = ["broker", "spark", "topic", "workload"]


@pytest.fixture(scope="module")
def workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return Workload(spark, tmp_path_factory.mktemp("workload"))
