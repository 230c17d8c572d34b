"""Which server a connection names."""

from __future__ import annotations

import pytest

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.hooks.airflow_api import AirflowApiHook


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://ed:secret@airflow.local:8080", "http://airflow.local:8080/"),
        ("https://ed:secret@airflow.local/air", "https://airflow.local/air/"),
        ("http://ed:secret@airflow.local:8443/https", "https://airflow.local:8443/"),
        (
            '{"conn_type": "http", "host": "https://airflow.local/air/", "password": "token"}',
            "https://airflow.local/air/",
        ),
        (
            '{"conn_type": "http", "host": "airflow.local", "schema": "https", "port": 8443}',
            "https://airflow.local:8443/",
        ),
    ],
)
def test_a_connection_names_the_base_url(text: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", text)
    assert AirflowApiHook()._base_url() == url


def test_a_connection_without_a_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", '{"conn_type": "http", "password": "token"}')
    with pytest.raises(InvalidSpec, match="names no host"):
        AirflowApiHook().answer("/lake/orders", "approve")


def test_a_server_that_does_not_answer_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", "http://ed:secret@127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match=r"does not answer at http://127\.0\.0\.1:9/auth/token") as raised:
        AirflowApiHook().answer("/lake/orders", "approve")
    assert "secret" not in str(raised.value)
