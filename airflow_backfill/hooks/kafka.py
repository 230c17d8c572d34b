"""Passes a connection of type ``kafka`` to a Spark application: through an environment variable, or in a file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow.sdk import BaseHook

from airflow_backfill.core.kafka.connection import VARIABLE, client_options
from airflow_backfill.own_folder import own_folder


def kafka_environment(conn_id: str | None) -> dict[str, str]:
    """The environment variables for an application that reads from this Kafka; none without a connection. KafkaOption
    for an invalid connection.

    They contain secrets: call this when a task runs, not when a DAG is parsed, and never put them into a template.
    """
    if conn_id is None:
        return {}
    connection = json.dumps(BaseHook.get_connection(conn_id).extra_dejson)
    client_options(connection)  # fails here, not minutes later in Spark
    return {VARIABLE: connection}


def bootstrap_servers(conn_id: str | None) -> str | None:
    """The brokers that a connection names; None without a connection. KafkaOption for an invalid connection."""
    given = kafka_environment(conn_id)
    return client_options(given[VARIABLE])["bootstrap.servers"] if given else None


@contextmanager
def file_with(environment: Mapping[str, str]) -> Iterator[str]:
    """The path of a file with the connection, which only this user can read, while the block runs."""
    with tempfile.NamedTemporaryFile("w", prefix="kafka-", suffix=".json", dir=own_folder()) as file:
        file.write(environment[VARIABLE])
        file.flush()
        yield file.name


@contextmanager
def inherited(environment: Mapping[str, str]) -> Iterator[None]:
    """Processes that start within the block inherit these variables.

    Do not use ``env_vars`` of the Spark provider for this: for YARN and Kubernetes it puts them on the command line.
    """
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
