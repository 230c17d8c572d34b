"""Hands a connection of type ``kafka`` to a Spark application, by its environment and by nothing else."""

from __future__ import annotations

import json

from airflow.sdk import BaseHook

from airflow_backfill.core.kafka.connection import VARIABLE, client_options


def kafka_environment(conn_id: str) -> dict[str, str]:
    """The environment variables of an application that reads from this Kafka; KafkaOption if it could not use them.

    They hold secrets: take them when a task runs, not when a DAG is parsed, and never put them into a template.
    """
    connection = json.dumps(BaseHook.get_connection(conn_id).extra_dejson)
    client_options(connection)  # refused here, not minutes later where Spark runs
    return {VARIABLE: connection}
