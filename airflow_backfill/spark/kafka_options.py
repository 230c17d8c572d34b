"""What every reader of a topic is told, stream or batch."""

from __future__ import annotations

from collections.abc import Mapping

MIB = 1 << 20


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
