"""Hands a connection of type ``kafka`` to a Spark application, by its environment and by nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow.sdk import BaseHook

from airflow_backfill.core.kafka.connection import VARIABLE, client_options


def kafka_environment(conn_id: str) -> dict[str, str]:
    """The environment variables of an application that reads from this Kafka; KafkaOption if it could not use them.

    They hold secrets: take them when a task runs, not when a DAG is parsed, and never put them into a template.
    """
    connection = json.dumps(BaseHook.get_connection(conn_id).extra_dejson)
    client_options(connection)  # refused here, not minutes later where Spark runs
    return {VARIABLE: connection}


@contextmanager
def inherited(environment: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started within the block inherit these variables.

    ``env_vars`` of the Spark provider would do the same, but for YARN and Kubernetes it puts them on the command line.
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
