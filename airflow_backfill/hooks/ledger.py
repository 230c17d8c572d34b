"""Reads builds from their tables, without a JVM."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook, Connection

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.source_log import SourceLog, SourceWatch
from airflow_backfill.hooks.aws_connection import AWS, settings_of_now, store_settings
from airflow_backfill.hooks.connection import connection
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_source import open_source, watch_source
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.service_folder import ServiceFolder

VARIABLES = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "aws_region": "AWS_REGION",
    "aws_default_region": "AWS_REGION",
    "aws_endpoint": "AWS_ENDPOINT_URL",
    "aws_endpoint_url": "AWS_ENDPOINT_URL",
}
"""Settings of a connection, and the variables in which Spark and S3A look for them."""

LOOK_SECONDS = 900.0
"""Time after which a wait looks its connection up again: a triggerer has a thousand of them."""


def store_environment(conn_id: str | None) -> dict[str, str]:
    """The environment variables by which Spark reaches the tables' store; none without a connection.

    They contain secrets: call this when a task runs, and never put them into a template. Spark passes them on to its
    executors. A store of another kind than S3 has none.
    """
    settings = {} if conn_id is None else _settings(conn_id, settings_of_now)
    return {variable: settings[name] for name, variable in VARIABLES.items() if name in settings}


def _settings(conn_id: str, of_aws: Callable[[Connection], dict[str, Any]]) -> dict[str, Any]:
    """The settings in a connection's extra; those without a value are left out. ``of_aws``: reads one of the type
    ``aws``. SourceUnavailable without the connection, InvalidSpec if it holds no settings where they are looked for.
    """
    found = connection("ledger_conn_id", conn_id)
    if found.conn_type == AWS:
        return of_aws(found)
    settings = found.extra_dejson  # also hides its values in logs; empty if it is no JSON
    try:
        right = isinstance(json.loads(found.extra or "{}"), dict)
    except ValueError:
        right = False
    if not right or (not settings and (found.login or found.password)):
        raise InvalidSpec(
            f"ledger_conn_id: connection {conn_id!r} must have its settings in its extra, as a JSON object such as "
            '{"aws_access_key_id": "…", "aws_region": "…"}; login and password are not used',
            field="ledger_conn_id",
        )
    return {name: str(value) for name, value in settings.items() if value not in (None, "")}


class LedgerHook(BaseHook):
    """
    Opens the logs of sources and targets, and the control folder beside a target.

    :param ledger_conn_id: a connection whose extra has the settings of the tables' store, such as ``aws_access_key_id``
        and ``aws_endpoint``, or one of Airflow's type ``aws``; by default they come from the environment.
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = "table_backfill_default"
    conn_type = "table_backfill"
    hook_name = "Table backfill"

    def __init__(self, ledger_conn_id: str | None = None) -> None:
        super().__init__()
        self.ledger_conn_id = ledger_conn_id
        self._looked = math.inf

    def reader(self, target: str) -> BuildReader:
        """The reader of a target's builds."""
        return BuildReader(target, options=self.options)

    def source_log(self, location: str) -> SourceLog:
        """The log of the source at ``location``."""
        return open_source(location, options=self.options)

    def watcher(self, plan: Plan) -> SourceWatch:
        """The watch on the source of a plan."""
        return watch_source(plan, options=self.options)

    def control(self, target: str) -> ControlFolder:
        """The control folder of a target: attempts and commands."""
        return ControlFolder.beside(target, options=self.options)

    def delta_log(self, location: str) -> DeltaLog:
        """The Delta log of the table at ``location``."""
        return DeltaLog(open_store(location, options=self.options))

    def service(self, location: str) -> ServiceFolder:
        """The folder of a service."""
        return ServiceFolder.at(location, options=self.options)

    def renewed(self) -> bool:
        """Whether the connection has other settings than before; what is open should then be opened again.

        It is looked up after each ``LOOK_SECONDS``. One that cannot be looked up now stays as it was.
        """
        if self.ledger_conn_id is None or time.monotonic() < self._looked + LOOK_SECONDS:
            return False
        before = self.options
        try:
            self.renew()
            return self.options != before
        except Exception as error:
            self.__dict__["options"] = before
            self.log.warning(
                "the wait goes on with the settings that connection %r had: %s", self.ledger_conn_id, error
            )
            return False

    def renew(self) -> None:
        """Look the connection up again, for whatever is opened from now on: its credentials may have been replaced."""
        self.__dict__.pop("options", None)

    @cached_property
    def options(self) -> StoreOptions:
        """The settings of the store, from the connection; None without one."""
        self._looked = time.monotonic()
        return None if self.ledger_conn_id is None else _settings(self.ledger_conn_id, store_settings)
