"""The connection to Kafka, and the options of every reader of a topic, stream or batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from airflow_backfill.core.errors import KafkaOption
from airflow_backfill.core.kafka.connection import FILE, VARIABLE, client_options

MIB = 1 << 20


def connection() -> dict[str, str]:
    """The client options from this process's environment, or from the file beside it. KafkaOption if neither is there,
    or an option is invalid.
    """
    if VARIABLE in os.environ:
        return client_options(os.environ[VARIABLE])
    try:
        return client_options(Path(FILE).read_text())
    except OSError:
        raise KafkaOption(
            f"neither the environment variable {VARIABLE} nor the file {FILE} is there, so the brokers are unknown; "
            "set kafka_conn_id of the task, or one of the two where the driver runs",
            option=VARIABLE,
        ) from None


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
