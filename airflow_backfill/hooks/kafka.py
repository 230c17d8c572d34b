"""Passes a connection of type ``kafka`` to a Spark application: through an environment variable, or in a file. Tells
tasks of other DAGs which connection a build uses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.kafka.connection import VARIABLE, client_options
from airflow_backfill.hooks.connection import connection
from airflow_backfill.own_folder import new_file

if TYPE_CHECKING:
    from airflow.sdk import Context

_KEY = "kafka"
"""Of the XCom with a task's target and its connection to Kafka."""
_ID = re.compile(r"(?!\.+$)[\w.~:+-]+")
"""Ids of DAGs, tasks and runs. Airflow's client puts them into the path of a request as they are."""


def kafka_environment(conn_id: str | None) -> dict[str, str]:
    """The environment variables for an application that reads from this Kafka; none without a connection. KafkaOption
    for an invalid connection.

    They contain secrets: call this when a task runs, not when a DAG is parsed, and never put them into a template.
    """
    if conn_id is None:
        return {}
    extra = json.dumps(connection("kafka_conn_id", conn_id).extra_dejson)
    client_options(extra)  # fails here, not minutes later in Spark
    return {VARIABLE: extra}


def bootstrap_servers(conn_id: str | None) -> str | None:
    """The brokers that a connection names; None without a connection. KafkaOption for an invalid connection."""
    given = kafka_environment(conn_id)
    return client_options(given[VARIABLE])["bootstrap.servers"] if given else None


def tell_kafka(context: Context, target: str, conn_id: str) -> None:
    """Tell Airflow which connection this task uses for the topic of its target."""
    context["ti"].xcom_push(key=_KEY, value={"target": target.rstrip("/"), "kafka_conn_id": conn_id})


def told_kafka(context: Context, target: str, attempts: Iterable[Mapping[str, Any]]) -> str | None:
    """The connection that the first of these attempts at ``target`` with one has told Airflow; None if none has.

    The attempts lie beside the target, and who may write there must not choose the connection: they only say which
    tasks to ask Airflow about.
    """
    for attempt in attempts:
        dag, task, run, index = (attempt.get(name) for name in ("dag_id", "task_id", "run_id", "map_index"))
        if index is not None and all(_ID.fullmatch(one or "") for one in (dag, task, run)):
            told = context["ti"].xcom_pull(task, dag, _KEY, map_indexes=index, run_id=run)
            if isinstance(told, dict) and told.get("target") == target.rstrip("/"):
                return str(told["kafka_conn_id"])
    return None


@contextmanager
def file_with(environment: Mapping[str, str]) -> Iterator[str]:
    """The path of a file with the connection, which only this user can read, while the block runs."""
    path = new_file(environment[VARIABLE].encode(), "kafka-", ".json")
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


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
