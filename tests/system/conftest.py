"""The session of the Spark tests serves the oracles here, too; the broker is that of the Kafka tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.kafka.conftest import broker, topic
from tests.spark.conftest import spark
from tests.system.lake import Lake
from tests.system.s3 import gate, s3
from tests.system.workload import Workload

__all__ = ["broker", "spark", "topic", "workload"]


@pytest.fixture(scope="module")
def workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return Workload(spark, tmp_path_factory.mktemp("workload"))


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("s3")
    with s3(folder) as service, gate(service) as way, pytest.MonkeyPatch.context() as patch:
        for name, value in way.environment.items():
            patch.setenv(name, value)
        yield Lake(spark, folder / "objects", way)
