"""The page's API. Every route takes Airflow's user; what a DAG builds is looked up, never taken from the browser. No
request opens a table, starts Java, waits for a store beyond its deadline, or keeps a connection of Airflow's pool
meanwhile.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from airflow.models.log import Log
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi import Path as AddressPart
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.look import ATTEMPTS
from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.errors import (
    BackfillError,
    DocumentDamaged,
    InvalidSpec,
    NotAllowedNow,
    NotPlanned,
)
from airflow_backfill.core.reports import explained_topic
from airflow_backfill.core.reports.explained import as_text
from airflow_backfill.core.reports.explained_row import rows
from airflow_backfill.core.values.control import Command
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.log_listing import LOG
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.store import NotFound
from airflow_backfill.plugin.access import COMMANDS, LOOKS, OWN_SITE, commanded, may_command, readable
from airflow_backfill.plugin.attention import attention, problems, rank
from airflow_backfill.plugin.commanding import MAX_BYTES, Order, order_in
from airflow_backfill.plugin.dropped import DROPPED, or_dropped
from airflow_backfill.plugin.reading import Readings, builders, not_built, troubled
from airflow_backfill.plugin.run import ended_in, run_of
from airflow_backfill.plugin.steering import steer, steering_dag
from airflow_backfill.plugin.tasks import Table, all_tables, named, tables
from airflow_backfill.plugin.whole import whole

PAGE = Path(__file__).parent / "page"
FILES = frozenset(file.name for file in PAGE.glob("*.js"))
GLANCED: tuple[dict[str, int], dict[str, int]] = ({}, {})
SEEN_WHOLE = ({LOG: 64, "attempts": ATTEMPTS, "commands": 64}, {LOG: 64})
"""Of how many of the newest numbers in each folder of target and source all files are fetched at once. For the overview
none: hundreds of builds keep the processor busy as it is, and each thread more costs more than it saves.
"""

MapIndex = Annotated[int, AddressPart(ge=-1, lt=2**31)]
"""As Airflow's database stores it."""

MISADDRESSED = "the address is not one of this page; reload the page"


def addressed(request: Request) -> None:
    """Refuse an address with a NUL character: no name in Airflow has one, and PostgreSQL refuses to look for it."""
    if any("\0" in part for part in request.path_params.values()):
        raise InvalidSpec(MISADDRESSED)


api = FastAPI(
    title="Table backfills",
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
    dependencies=[Depends(get_user), Depends(addressed)],
)
glances, wholes = Readings(or_dropped(glance), GLANCED), Readings(or_dropped(whole), SEEN_WHOLE)


@api.get("/page/{file}", response_class=FileResponse)
def page(file: str) -> FileResponse:
    """A file of the page."""
    if file not in FILES:
        raise NotPlanned(f"the page has no file {file!r}; reload the page")
    return FileResponse(PAGE / file, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


@api.get("/builds")
def overview(session: SessionDep, user: GetUserDep) -> dict[str, Any]:
    """All builds of DAGs that the user may look at; and ``templated``, the DAGs whose builds only a run would tell."""
    found, templated = all_tables(session, readable(user))
    builds = [one for one in _glanced(session, user, found) if one["tasks"] or not _nothing_there(one)]
    return {"builds": builds, "templated": templated}


@api.get("/dags/{dag_id}/runs/{run_id}/builds", dependencies=[LOOKS])
def of_run(dag_id: str, run_id: str, session: SessionDep, user: GetUserDep) -> dict[str, Any]:
    """The builds that the tasks of a run work on or wait for."""
    targets = named(session, dag_id=dag_id, run_id=run_id)
    return {"builds": _glanced(session, user, tables(session, readable(user), targets))}


@api.get("/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/{map_index}/builds", dependencies=[LOOKS])
def of_task(
    dag_id: str, run_id: str, task_id: str, map_index: MapIndex, session: SessionDep, user: GetUserDep
) -> dict[str, Any]:
    """The build that a task instance works on or waits for; none for a task of another kind."""
    targets = named(session, dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    return {"builds": _glanced(session, user, tables(session, readable(user), targets))}


@api.get("/dags/{dag_id}/builds/{key}", dependencies=[LOOKS])
def one(dag_id: str, key: str, session: SessionDep, user: GetUserDep) -> dict[str, Any]:
    """Everything about one build of the DAG. Values of rows, in messages of errors and as keys that differ, are only
    for those who may command it.
    """
    table = _table(session, dag_id, key)
    run, ended = run_of(session, table), ended_in(session, [table])
    may = may_command(user, dag_id)
    mine = {"may_command": may, "steering": steering_dag(session, user)}
    session.close()
    [found] = wholes.of([table], {dag_id} if may else ())
    both = {**_known(table), **mine, "run": run, **found}
    if both.get("difference") is not None and not may:
        both["difference"] = {**both["difference"], "keys": None}
    return {**both, "problems": problems(both, ended.get((dag_id, table.target), []))}


@api.get("/dags/{dag_id}/builds/{key}/explanations/{generation}", dependencies=[COMMANDS])
def explanation(dag_id: str, key: str, generation: int, session: SessionDep) -> dict[str, Any]:
    """Why a row is as it is, as an attempt has found it. It holds values of the row, so it is for those who may command
    the build.
    """
    table = _table(session, dag_id, key)
    session.close()
    control = _reader(table).control
    found = control.explanation(generation)
    if found is None:
        raise HTTPException(
            404, f"no explanation of attempt {generation} is stored, or it was removed; explain the row again"
        )
    try:
        told = {"key": found["key"], "verdict": found["verdict"], "text": as_text(found), "topic": _of_topic(found)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DocumentDamaged(f"the explanation of attempt {generation} cannot be read: {error!r:.100}") from None
    with suppress(DocumentDamaged, NotFound):  # the attempt may be forgotten
        asked = control.attempt(generation)
        told |= {name: asked.get(name) for name in ("by", "why", "at")}
    return told


def _of_topic(found: dict[str, Any]) -> dict[str, Any] | None:
    """The parts of the explanation of a topic's row; None for a table's."""
    if "topic" not in found:
        return None
    holds, should = found["holds"], found["should_hold"]
    return {
        "why": found["why"],
        "looked_at": explained_topic.looked_at(found),
        "warnings": explained_topic.warnings(found),
        "records": explained_topic.records(found),
        "holds": rows(holds),
        "should": None if should is None else rows(should),
    }


@api.post("/dags/{dag_id}/builds/{key}/commands", status_code=201, dependencies=[COMMANDS, OWN_SITE])
async def command(dag_id: str, key: str, request: Request, session: SessionDep, user: GetUserDep) -> dict[str, Any]:
    """Order a command. It takes effect at the next barrier, whose record acknowledges its number."""
    body = b""
    async for part in request.stream():
        if len(body := body + part) > MAX_BYTES:
            break
    order = order_in(body, user.get_name())
    return await run_in_threadpool(_ordered, dag_id, key, order, session, user)


def _ordered(dag_id: str, key: str, order: Order, session: Session, user: Any) -> dict[str, Any]:
    table = _table(session, dag_id, key)
    steering = steering_dag(session, user) if order.needs_spark else None
    session.close()
    reader = _reader(table)
    told: dict[str, Any] = {"verb": order.verb, "target": table.target, "why": order.signed.why}
    if isinstance(order.what, Command) and steering is None:
        told = {**told, **order.what.to_json(), "number": ordered(reader, order.what, once=order.name is not None)}
    else:
        order.check(reader)
        told["run"] = steer(steering, user.get_name(), order.parameters(table.target), order.name)
    event, name = f"table_backfill_{order.verb}", user.get_name()
    session.add(Log(event, owner=name, owner_display_name=name, dag_id=dag_id, extra=json.dumps(told)))
    session.commit()
    return told


def _table(session: SessionDep, dag_id: str, key: str) -> Table:
    for table in tables(session, {dag_id}):
        if table.key == key:
            return table
    raise NotPlanned(
        f"no task of DAG {dag_id} works on such a build; open the page of the DAG that builds it", dag=dag_id
    )


def _reader(table: Table) -> BuildReader:
    """The reader of a table; NotPlanned unless its DAG has worked on it."""
    reader = LedgerHook(table.ledger_conn_id).reader(table.target)
    if not builders(reader.control, table.claims):
        raise not_built(table.target, [table.dag_id])
    return reader


def _glanced(session: Session, user: Any, found: list[Table]) -> list[dict[str, Any]]:
    ended, mine = ended_in(session, found), commanded(user)
    session.close()
    seen = glances.of(found, mine)
    both = [{**_known(table), **glanced} for table, glanced in zip(found, seen, strict=True)]
    both = [{**one, "problems": problems(one, ended.get((one["dag_id"], one["target"]), []))} for one in both]
    return sorted(({**one, "attention": attention(one)} for one in both), key=rank)


def _nothing_there(found: dict[str, Any]) -> bool:
    """Whether a DAG only names a table: it has not built it yet, or a cancel has dropped it."""
    code = (found.get("trouble") or {}).get("code")
    return found.get("phase") == DROPPED or code == NotPlanned.code


def _known(table: Table) -> dict[str, Any]:
    """What Airflow's database knows."""
    tasks = [task.to_json() for task in table.lanes]
    return {"key": table.key, "dag_id": table.dag_id, "target": table.target, "tasks": tasks}


@api.exception_handler(BackfillError)
def refused(request: Request, error: Exception) -> JSONResponse:
    """Coded errors, with their way out."""
    assert isinstance(error, BackfillError)
    return JSONResponse(troubled(error), _status(error))


@api.exception_handler(StarletteHTTPException)
def not_served(request: Request, error: Exception) -> JSONResponse:
    """What is refused before a build is looked at, in the same form."""
    assert isinstance(error, StarletteHTTPException)
    said = {"code": f"HTTP_{error.status_code}", "message": error.detail, "data": {}, "retry": False}
    way_out = _WAYS_OUT.get(error.status_code, "Reload the page.")
    return JSONResponse({**said, "way_out": way_out}, error.status_code, error.headers)


_WAYS_OUT = {
    401: "Send a valid token of Airflow's API. On the page: reload it to sign in.",
    403: "Send it from Airflow's own page, with the permission that the page's documentation names.",
    415: "Send it as JSON.",
}


@api.exception_handler(RequestValidationError)
def misaddressed(request: Request, error: Exception) -> JSONResponse:
    """A path that names no task instance."""
    return refused(request, InvalidSpec(MISADDRESSED))


def _status(error: BackfillError) -> int:
    match error:
        case NotPlanned():
            return 404
        case NotAllowedNow():
            return 409
        case InvalidSpec():
            return 422
    return 503 if error.retry else 409
