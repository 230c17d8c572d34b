"""What every reader of a topic is told, stream or batch."""

from __future__ import annotations

from collections.abc import Mapping


def kafka_options(connection: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source: records of committed transactions only, their headers, and no silent loss."""
    return {
        **{f"kafka.{name}": value for name, value in connection.items()},
        "kafka.isolation.level": "read_committed",
        # Ranges have an end: waiting for more than there is would cost half a second at each.
        "kafka.fetch.max.wait.ms": "50",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
