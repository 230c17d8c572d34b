"""How Kafka is reached, and what every reader of a topic is told, stream or batch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow_backfill.core.errors import KafkaOption
from airflow_backfill.core.kafka.connection import VARIABLE, client_options

MIB = 1 << 20


def connection() -> dict[str, str]:
    """How Kafka is reached, from this process's environment; KafkaOption if it does not say."""
    if VARIABLE not in os.environ:
        raise KafkaOption(
            f"the environment variable {VARIABLE} is not set; give the task kafka_conn_id, or set it where the "
            "driver runs",
            option=VARIABLE,
        )
    return client_options(os.environ[VARIABLE])


def kafka_options(connection: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source: records of committed transactions only, their headers, and no silent loss."""
    return {
        **{f"kafka.{name}": value for name, value in connection.items()},
        "kafka.isolation.level": "read_committed",
        # Ranges have an end: waiting for more than there is would cost half a second at each.
        "kafka.fetch.max.wait.ms": "50",
        # Kafka's own choices are for few records soon; a history is read a quarter faster in large pieces.
        "kafka.max.poll.records": "5000",
        "kafka.max.partition.fetch.bytes": str(8 * MIB),
        "kafka.fetch.max.bytes": str(64 * MIB),
        "kafka.receive.buffer.bytes": str(MIB),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
