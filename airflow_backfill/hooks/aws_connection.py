"""Connections of Airflow's type ``aws``, such as ``aws_default``: keys, a profile, or a role that is assumed. Airflow's
provider for Amazon reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from airflow.sdk import Connection

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.ledger.aws_profile import KEPT

AWS = "aws"
"""The type of such a connection."""
_CONNECTIONS = 64
"""Connections that one process keeps a session for."""


def store_settings(found: Connection) -> dict[str, Any]:
    """Settings of S3 for readers without Spark. Credentials are asked for again every few minutes, so those of a role
    are never too old. Readers of one process share a session until the connection changes.
    """
    return dict(_settings(found.conn_id, found.login, found.password, found.extra))


def settings_of_now(found: Connection) -> dict[str, str]:
    """The same with the credentials of this moment, for Spark. Those of a role last as long as its sessions do."""
    settings = store_settings(found)
    del settings["aws_credential_provider"]
    with _asking(found.conn_id) as hook:
        new = hook.get_credentials()
    keys = {"access_key_id": new.access_key, "secret_access_key": new.secret_key, "session_token": new.token}
    return settings | {f"aws_{name}": value for name, value in keys.items() if value}


@lru_cache(_CONNECTIONS)
def _settings(conn_id: str, *_content: str | None) -> dict[str, Any]:
    with _asking(conn_id) as hook:
        session = hook.get_session()
        if session.get_credentials() is None:
            raise _refused(
                f"connection {conn_id!r} has no credentials, and this machine has none; give it an access key as login "
                "and its secret as password, or a role_arn or a profile_name in its extra"
            )
        endpoint = hook.conn_config.get_service_endpoint_url("s3")
    from obstore.auth.boto3 import Boto3CredentialProvider

    found = {"credential_provider": Boto3CredentialProvider(session, ttl=KEPT), "endpoint": endpoint}
    return {f"aws_{name}": value for name, value in (found | {"region": session.region_name}).items() if value}


@contextmanager
def _asking(conn_id: str) -> Iterator[Any]:
    """Airflow's hook for the connection. SourceUnavailable if AWS does not give what it is asked for."""
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError:
        raise _refused(
            f"connection {conn_id!r} has the type {AWS}; install apache-airflow-providers-amazon, or use a connection "
            "of the type table_backfill with the settings in its extra"
        ) from None
    try:
        yield AwsGenericHook(aws_conn_id=conn_id)
    except (BotoCoreError, ClientError) as error:
        raise SourceUnavailable(
            f"ledger_conn_id: connection {conn_id!r} gets no credentials from AWS: {error}",
            conn_id=conn_id,
        ) from None


def _refused(said: str) -> InvalidSpec:
    return InvalidSpec(f"ledger_conn_id: {said}", field="ledger_conn_id")
