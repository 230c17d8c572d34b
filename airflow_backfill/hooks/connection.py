"""Connections of Airflow, for all hooks."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable


def connection(field: str, conn_id: str) -> Connection:
    """The connection; SourceUnavailable without it, because Airflow says the same of a secrets backend that does not
    answer, and if Airflow refuses it. InvalidSpec if no connection is named. ``field``: the argument that names it.
    """
    if not isinstance(conn_id, str) or not conn_id:
        raise InvalidSpec(
            f"{field}: must be the id of a connection (got {conn_id!r}); if a template names it, that found no value",
            field=field,
        )
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise SourceUnavailable(
            f"{field}: Airflow has no connection {conn_id!r}, or its secrets backend does not answer; create it, or "
            f"correct {field}",
            conn_id=conn_id,
        ) from None
    except AirflowSecretsBackendAccessDenied as error:
        raise SourceUnavailable(
            f"{field}: Airflow refuses connection {conn_id!r} to this task: {error}; name one that it may read, or ask "
            "who keeps Airflow's rights",
            conn_id=conn_id,
        ) from None
