"""What an error of Kafka's client, or of Spark's reader of topics, means: a refusal, a topic that is missing, brokers
that do not answer, or a record that Spark cannot represent.

The client's messages name hosts and topics, but no credentials.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.errors import BackfillError, KafkaRefused, SourceUnavailable, TopicMissing, Undecodable
from airflow_backfill.ledger.java_error import java_errors

DESCRIBE, READ = "Describe", "Read"
"""The rights that a build needs on its topic."""
_UNMADE = ("Failed to create new KafkaAdminClient", "Failed to construct kafka consumer")
_TIME_OVERFLOWS = re.compile(r"partition (\d+) offset (\d+) has timestamp value \d+ that overflows")
_READER = "org.apache.spark.sql.kafka010.KafkaRecordToRowConverter"
_UNRESOLVED = "No resolvable bootstrap urls"
_REFUSALS = ("AuthenticationException", "InvalidConfigurationException", "ConfigException")


def kafka_error(error: BaseException, topic: str | None = None, right: str = READ) -> BackfillError | None:
    """The error as a coded one; None if no error behind it is Kafka's. ``topic`` and ``right``: what was asked for, if
    the caller knows it. Otherwise records were read.
    """
    behind = list(java_errors(error))
    for place, thrown in enumerate(behind):
        package, _, kind = thrown.getClass().getName().rpartition(".")
        if kind == "KafkaIllegalStateException":
            return _unread(str(thrown.getMessage()), topic)
        if kind == "ArithmeticException" and _in_reader(thrown):
            return _odd_time(topic)
        if package.startswith("org.apache.kafka"):
            topic = topic or _unauthorized(thrown, kind)
            if str(thrown.getMessage()).startswith(_UNMADE):
                return _unusable(behind[place + 1 :] or [thrown], topic)
            return _coded(thrown, kind, topic, right)
    return None


def kinds(thrown: Any) -> set[str]:
    """The names of a Java error's class and of its superclasses."""
    found, kind = set(), thrown.getClass()
    while kind is not None:
        found.add(kind.getSimpleName())
        kind = kind.getSuperclass()
    return found


def _unauthorized(thrown: Any, kind: str) -> str | None:
    """The topic that the brokers refuse, if the error names one."""
    names = list(thrown.unauthorizedTopics()) if kind == "TopicAuthorizationException" else []
    return str(names[0]) if names else None


def _named(topic: str | None) -> str:
    return f"topic {topic}" if topic else "the topic"


def _unusable(causes: Sequence[Any], topic: str | None) -> BackfillError:
    """The error of a client that cannot be created. An unknown host name may be a failure of DNS, so it is retried."""
    kind = causes[-1].getClass().getSimpleName()
    why = ": ".join(dict.fromkeys(str(cause.getMessage()) for cause in causes))[:300]
    error = SourceUnavailable if _UNRESOLVED in why else KafkaRefused
    return error(
        f"no Kafka client for {_named(topic)} can be created from the connection: {kind}: {why}; correct the "
        "connection, then clear the task",
        topic=topic,
        kind=kind,
    )


def _in_reader(thrown: Any) -> bool:
    """Whether Spark's reader of topics failed, and no expression of the user."""
    return any(frame.getClassName().startswith(_READER) for frame in thrown.getStackTrace())


def _unread(said: str, topic: str | None) -> BackfillError:
    """The error of Spark's reader, which got a record that it cannot represent, or none in time."""
    place = _TIME_OVERFLOWS.search(said)
    if place is None:
        return SourceUnavailable(
            f"the brokers did not return the next records of {_named(topic)} in time, or no longer have them",
            topic=topic,
            kind="KafkaIllegalStateException",
        )
    partition, offset = map(int, place.groups())
    return _odd_time(topic, partition=partition, offset=offset)


def _odd_time(topic: str | None, **place: int) -> BackfillError:
    """The error of a record with a timestamp that Spark cannot represent. Only Spark 4.2 says which one it is."""
    where = "offset {offset} of partition {partition}".format(**place) if place else "a record"
    return Undecodable(
        f"{where} of {_named(topic)} has a timestamp that Spark cannot represent: its producer did not count "
        "milliseconds; correct the producer, delete the topic's records up to this one (kafka-delete-records), run "
        "'table-backfill skip TARGET', which counts those that are not read yet as lost, and clear the task",
        count=1,
        sample=[{**place, "reason": "its timestamp is no number of milliseconds"}],
    )


def _coded(thrown: Any, kind: str, topic: str | None, right: str) -> BackfillError:
    names = kinds(thrown)
    message = str(thrown.getMessage())[:300]
    if kind in ("UnknownTopicOrPartitionException", "UnknownTopicIdException"):
        return TopicMissing(
            f"{_named(topic)} does not exist on the brokers, or the connection may not see it; correct topic.name, the "
            "connection or its rights, then clear the task",
            topic=topic,
        )
    if "AuthorizationException" in names:
        return KafkaRefused(
            f"the connection's user lacks the right {right} on {_named(topic)}: {kind}: {message}; allow it, then "
            "clear the task",
            topic=topic,
            kind=kind,
            right=right,
        )
    if names & set(_REFUSALS):
        return KafkaRefused(
            f"the brokers refuse access to {_named(topic)}: {kind}: {message}; correct credentials, certificates or "
            "rights of the connection, then clear the task",
            topic=topic,
            kind=kind,
        )
    return SourceUnavailable(
        f"the brokers did not answer about {_named(topic)}: {kind}: {message}",
        topic=topic,
        kind=kind,
    )
