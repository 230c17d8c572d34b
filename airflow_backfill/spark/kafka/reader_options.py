"""The connection to Kafka, and the options of every reader of a topic, stream or batch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow_backfill.core.errors import KafkaOption
from airflow_backfill.core.kafka.connection import VARIABLE, client_options

MIB = 1 << 20


def connection() -> dict[str, str]:
    """The client options from this process's environment; KafkaOption if the variable is missing or invalid."""
    if VARIABLE not in os.environ:
        raise KafkaOption(
            f"the environment variable {VARIABLE} is not set, so the brokers are unknown; set kafka_conn_id of the "
            "task, or the variable where the driver runs",
            option=VARIABLE,
        )
    return client_options(os.environ[VARIABLE])


def kafka_options(connection: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source: only committed records, with headers, and an error if records are lost."""
    return {
        **{f"kafka.{name}": value for name, value in connection.items()},
        "kafka.isolation.level": "read_committed",
        # At the end of each range, the default would wait half a second for more records.
        "kafka.fetch.max.wait.ms": "50",
        # Kafka's defaults aim at low latency; larger fetches read a history a quarter faster.
        "kafka.max.poll.records": "5000",
        "kafka.max.partition.fetch.bytes": str(8 * MIB),
        "kafka.fetch.max.bytes": str(64 * MIB),
        "kafka.receive.buffer.bytes": str(MIB),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
