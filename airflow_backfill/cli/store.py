"""The store that a command line works with: settings of an Airflow connection, or the environment's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.values.options import invalid
from airflow_backfill.ledger.open_store import StoreOptions
from airflow_backfill.ledger.reader import BuildReader


def reader(options: argparse.Namespace) -> BuildReader:
    """The reader of the target that the command line names. One command line reads its connection once."""
    if "builds" not in options:
        options.builds = BuildReader(options.target, options=store_options(options.conn_id))
    builds: BuildReader = options.builds
    return builds


def store_options(conn_id: str | None) -> StoreOptions:
    """The settings in the connection; None without a connection: obstore then reads the environment.

    Airflow looks for the connection in ``AIRFLOW_CONN_…`` and its secrets backends; its database is not opened.
    InvalidSpec if there is no such connection.
    """
    if conn_id is None:
        return None
    with connection_named("--conn-id", conn_id):
        from airflow_backfill.hooks.ledger import LedgerHook

        return LedgerHook(conn_id).options


@contextmanager
def connection_named(option: str, conn_id: str) -> Iterator[None]:
    """The block imports Airflow, which takes a second to load, and reads a connection. Airflow's warnings are not mixed
    with the answer. InvalidSpec if there is no such connection.
    """
    with redirect_stdout(sys.stderr):
        from airflow.sdk.exceptions import AirflowException

        try:
            yield
        except (AirflowException, SourceUnavailable, ValueError) as error:
            said = f"cannot be read ({type(error).__name__}); set the variable AIRFLOW_CONN_{conn_id.upper()}"
            raise invalid(option, conn_id, said) from None
