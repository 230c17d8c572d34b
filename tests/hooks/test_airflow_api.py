"""Which server a connection names."""

from __future__ import annotations

import json

import httpx
import pytest

from airflow_backfill.core.errors import InvalidSpec, NotPlanned, SourceUnavailable
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


def test_a_login_is_changed_into_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answers(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, str(request.url), request.headers.get("authorization"), request.content))
        return httpx.Response(200, json={"builds": []} if request.method == "GET" else {"access_token": "a token"})

    made, said = httpx.Client, httpx.MockTransport(answers)
    monkeypatch.setattr(httpx, "Client", lambda **how: made(**how, transport=said))
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", "https://ed:secret@airflow.local/air")
    with pytest.raises(NotPlanned, match="/lake/orders"):
        AirflowApiHook().answer("/lake/orders", "approve")
    sign_in, look = asked
    assert sign_in[:3] == ("POST", "https://airflow.local/air/auth/token", None)
    assert json.loads(sign_in[3]) == {"username": "ed", "password": "secret"}
    assert look[:3] == ("GET", "https://airflow.local/air/table-backfill/builds", "Bearer a token")


def test_a_server_that_does_not_answer_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", "http://ed:secret@127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match=r"does not answer at http://127\.0\.0\.1:9/auth/token") as raised:
        AirflowApiHook().answer("/lake/orders", "approve")
    assert "secret" not in str(raised.value)
