"""Airflow's API and the page's, for the answer to an approval: Airflow itself knows whose answer counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx
from airflow.sdk import BaseHook

from airflow_backfill.core.errors import InvalidSpec, NotAllowedNow, NotPlanned, SourceUnavailable
from airflow_backfill.core.values.options import choice
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.hooks.connection import connection

PAGE = "table-backfill"
"""Where Airflow mounts the page."""
ANSWERS = {"approve": "Approve", "reject": "Reject"}
"""The answers that Airflow's ``ApprovalOperator`` takes."""
TIMEOUT_SECONDS = 30.0


class AirflowApiHook(BaseHook):
    """
    Gives orders to Airflow's API server as a user of it.

    :param airflow_conn_id: a connection of type ``http`` with the server's base URL. With a login, login and password
        are those of the user; without one, the password is a token of Airflow's API.
    """

    conn_name_attr = "airflow_conn_id"
    default_conn_name = "airflow_api"

    def __init__(self, airflow_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.airflow_conn_id = airflow_conn_id
        self._server = connection("airflow_conn_id", airflow_conn_id)

    @contextmanager
    def signed_in(self) -> Iterator[httpx.Client]:
        """A client of the server, as the connection's user."""
        found = self._server
        with httpx.Client(base_url=self._base_url(), timeout=TIMEOUT_SECONDS) as client:
            token = found.password
            if found.login:
                user = {"username": found.login, "password": found.password or ""}
                token = self._asked(client, "POST", "auth/token", user)["access_token"]
            client.headers["Authorization"] = f"Bearer {token}"
            yield client

    def _base_url(self) -> str:
        """The base URL of the server. As text, ``https://login:password@host/path`` gives a connection of type
        ``https`` with the path as its schema; in Airflow's form, ``https`` is the schema of one of type ``http``.
        """
        found = self._server
        host, schema = found.host or "", (found.schema or "").strip("/")
        if not host:
            raise self._wrong(f"connection {self.airflow_conn_id!r} names no host; give it the base URL of Airflow")
        if "://" in host:
            return f"{host.rstrip('/')}/"
        scheme = "https" if "https" in (schema, found.conn_type) else "http"
        port = f":{found.port}" if found.port else ""
        path = f"{schema}/" if schema not in ("", "http", "https") else ""
        return f"{scheme}://{host}{port}/{path}"

    def answer(self, target: str, answer: str, why: str | None = None) -> dict[str, Any]:
        """Answer the approval that the build of ``target`` waits for. The same answer may be given again.

        NotAllowedNow if nobody is asked, if the approval has another answer, if it is not clear which one is meant, or
        if it takes no reason. NotPlanned if no DAG of the user builds the table; InvalidSpec if Airflow refuses the
        user, or for a reason that is no line of text.
        """
        signed = Signature(why=why)
        option = ANSWERS[choice({"answer": answer}, "answer", tuple(ANSWERS))]
        with self.signed_in() as client:
            run = self._asked(client, "GET", self._build(client, target))["run"]
            given = [one for one in run["answered"] if one["answer"] == option]
            if not run["asked"] and given:
                return {"target": target, "answer": answer, "task": given[0]["task_id"], "again": True}
            if len(run["asked"]) != 1:
                raise NotAllowedNow(_why_not(target, run))
            [task] = run["asked"]
            reason = signed.to_json()
            if reason and not task["takes_why"]:
                raise NotAllowedNow(
                    f"task {task['task_id']} takes no reason: it has params of its own, or has asked before the "
                    "package was upgraded; answer without a reason"
                )
            self._asked(client, "PATCH", _approval(task), {"chosen_options": [option], "params_input": reason})
        return {"target": target, "answer": answer, "task": task["task_id"], "again": False}

    def _build(self, client: httpx.Client, target: str) -> str:
        """The address of the build of ``target``."""
        for build in self._asked(client, "GET", f"{PAGE}/builds")["builds"]:
            if build["target"] == target.rstrip("/"):
                return f"{PAGE}/dags/{quote(build['dag_id'], safe='')}/builds/{build['key']}"
        raise NotPlanned(
            f"no DAG that the user of connection {self.airflow_conn_id!r} may look at builds {target}; name the target "
            "as the DAG does"
        )

    def _asked(self, client: httpx.Client, method: str, path: str, body: Any = None) -> Any:
        """What the server answers. SourceUnavailable, which is worth a retry, if it does not."""
        where = f"{client.base_url}{path}"
        try:
            answer = client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise SourceUnavailable(f"Airflow's API server does not answer at {where}: {error!r}") from None
        if answer.is_success:
            return _json(answer)
        said = f"Airflow's API server answers {method} {where} with status {answer.status_code}"
        detail = f"{said}: {_said(answer)}"
        match answer.status_code:
            case 401 | 403:
                raise self._wrong(f"{detail}; check login, password and permissions of the user")
            case 404:
                raise self._wrong(f"{detail}; check the base URL, and install this package there, which has a plugin")
            case 409:
                raise NotAllowedNow(f"{detail}; another user has answered meanwhile; see the page of the build")
            case status if status >= 500 or status == 429:
                raise SourceUnavailable(detail)
        raise self._wrong(detail)

    def _wrong(self, why: str) -> InvalidSpec:
        return InvalidSpec(f"airflow_conn_id: {why}", field="airflow_conn_id")


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise SourceUnavailable(f"{answer.url} does not answer in JSON, as a proxy or a sign-in page does") from None


def _said(answer: httpx.Response) -> str:
    """Why the server refuses, as the page or Airflow says it."""
    try:
        told = answer.json()
        return str(told.get("message") or told.get("detail"))
    except (AttributeError, ValueError):
        return answer.text[:300]


def _approval(task: dict[str, Any]) -> str:
    dag, run, name = (quote(task[part], safe="") for part in ("dag_id", "run_id", "task_id"))
    return f"api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{name}/{task['map_index']}/hitlDetails"


def _why_not(target: str, run: dict[str, Any]) -> str:
    if run["asked"]:
        names = ", ".join(sorted(one["task_id"] for one in run["asked"]))
        return f"several approvals may be meant ({names}); answer the right one on the page of the build"
    known = [
        f"task {one['task_id']} has the answer {one['answer']} by {one['by']}"
        for one in run["answered"]
        if one["state"] != "failed"
    ]
    known += [f"task {one['task_id']} was {one['how']}; clear it to be asked again" for one in run["refused"]]
    why = "; ".join(known) or "its snapshot may not be read yet, or its DAG has no approval (approval=True)"
    return f"no task asks for an approval of {target}: {why}"
