"""The session of the Spark tests serves the oracles here, too; the broker is that of the Kafka tests."""

from tests.kafka.conftest import broker, topic
from tests.spark.conftest import spark

__all__ = ["broker", "spark", "topic"]
