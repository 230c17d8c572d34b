"""Reads many builds at once, and waits for none that does not answer.

Each store has threads of its own, so a store that hangs keeps nobody else from answering. While a build is being read,
everybody who asks for it waits for the same answer, until its deadline has passed; after that nobody waits for it. The
time that a build waits for a thread is not its store's, so it does not count as long as threads become free.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

from airflow_backfill.core.errors import BackfillError, DocumentDamaged, NotPlanned, SourceUnavailable
from airflow_backfill.core.reports.way_out import told
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Errand, Verb
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.fetching_store import FetchingStore
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.open_store import wrapped
from airflow_backfill.ledger.store import NotFound, Store
from airflow_backfill.plugin.clipped import clipped
from airflow_backfill.plugin.dropped import Look
from airflow_backfill.plugin.tasks import Claims, Table

log = logging.getLogger(__name__)

READERS = 150
"""Builds of one store that are read at once."""
FETCHERS = 100
"""Files that are fetched for them meanwhile."""
DEADLINE_SECONDS = 2.0
"""How long an answer waits for one build, from the start of its reading on."""
SEARCHED = 50
"""Newest attempts beside a target that are read if a DAG's own do not tell whether it builds the target."""
QUEUE_SECONDS = 10.0
"""How long it waits for that start."""

_Ahead = Mapping[str, int]
_Place = tuple[str, str | None, Claims, bool]
"""A target, its connection, the claims of DAGs that they build it, and whether values of its rows may be shown."""


@dataclass
class _Threads:
    readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "table-backfill-read"))
    fetchers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(FETCHERS, "table-backfill-fetch"))


@dataclass
class _Reading:
    """Of one build. ``asked``, ``begun``: times of the monotonic clock."""

    asked: float = field(default_factory=time.monotonic)
    begun: float = 0.0
    started: Event = field(default_factory=Event)
    found: Future[dict[str, Any]] = field(init=False)

    def start(self) -> None:
        self.begun = time.monotonic()
        self.started.set()

    def wait(self) -> None:
        """Until there is an answer, or no time left."""
        if self.started.wait(max(self.asked + QUEUE_SECONDS - time.monotonic(), 0)):
            wait([self.found], max(self.begun + DEADLINE_SECONDS - time.monotonic(), 0))


class Readings:
    """Runs ``look`` for builds. ``ahead``: of how many numbers in each folder of the target, and of the source, all
    files are fetched as soon as it is listed.
    """

    def __init__(self, look: Look, ahead: tuple[_Ahead, _Ahead]) -> None:
        self._look = look
        self._of_target, self._of_source = ahead
        self._lock = Lock()
        self._running: dict[_Place, _Reading] = {}

    def of(self, tables: Sequence[Table], commanded: Collection[str] = ()) -> list[dict[str, Any]]:
        """What was found of each build, and ``dags``, which build it; ``{"trouble": error}`` if nothing was found, or
        not within the deadline. NotPlanned is the trouble if none of the DAGs has worked on the table. ``commanded``:
        the DAGs whose builds the user may command, and so see values of their rows.
        """
        places = [(one.target, one.ledger_conn_id, one.claims, one.dag_id in commanded) for one in tables]
        readings = [self._begin(place) for place in places]
        for reading in readings:
            reading.wait()
        return [_result(reading.found, place) for reading, place in zip(readings, places, strict=True)]

    def _begin(self, place: _Place) -> _Reading:
        with self._lock:
            known = self._running.get(place)
            if known is not None and not known.found.done():
                return known
            threads = _threads_of(place)
            self._running[place] = reading = _Reading()
            reading.found = threads.readers.submit(self._read, place, threads, reading)
        # Outside the lock: if it has ended already, it is forgotten here.
        reading.found.add_done_callback(lambda _: self._forget(place, reading))
        return reading

    def _forget(self, place: _Place, reading: _Reading) -> None:
        with self._lock:
            if self._running.get(place) is reading:
                del self._running[place]

    def _read(self, place: _Place, threads: _Threads, reading: _Reading) -> dict[str, Any]:
        reading.start()
        target, connection, claims, values = place
        hook, url = LedgerHook(connection), Location.parse(target).url
        opened: dict[str, FetchingStore] = {}

        def ahead(store: Store) -> Store:
            most = self._of_target if store.url.startswith(url) else self._of_source
            return opened.setdefault(store.url, FetchingStore(store, threads.fetchers, most))

        with wrapped(ahead):
            dags = builders(hook.control(target), claims)
            if not dags:
                raise not_built(target, (dag for dag, _ in claims))
            found: dict[str, Any] = clipped({**self._look(target, hook.options, values=values), "dags": dags})
            return found


def builders(control: ControlFolder, claims: Claims) -> list[str]:
    """The DAGs among those with a claim that have an attempt beside the target. Orders such as a cancel do not count:
    a DAG that may steer all builds builds none of them. Of the attempts that a DAG claims, the newest readable one
    counts; if there is none, the newest attempts beside the target. DocumentDamaged if those do not tell.
    """
    builds: set[str] = set()
    unsure: set[str] = set()
    damage = None
    for dag, attempts in claims:
        try:
            claimed = _claimed(control, dag, attempts)
        except DocumentDamaged as error:
            claimed, damage = None, error
        if claimed is None:
            unsure.add(dag)
        elif claimed:
            builds.add(dag)
    if unsure:
        try:
            builds |= _searched(control, unsure)
        except DocumentDamaged as error:
            damage = error
    if damage is not None and not builds:
        raise damage
    return [dag for dag, _ in claims if dag in builds]


def _claimed(control: ControlFolder, dag: str, attempts: Sequence[Attempt]) -> bool | None:
    """Whether the DAG builds the target by the newest readable one of these attempts; None if there are no attempts,
    DocumentDamaged if all are damaged.
    """
    damage = None
    for attempt in attempts:
        try:
            document = control.drawn(attempt)
        except DocumentDamaged as error:
            damage = error
        else:
            return document is not None and _builds(document, dag)
    if damage is not None:
        raise damage
    return None


def _searched(control: ControlFolder, dags: Collection[str]) -> set[str]:
    """Those of the DAGs that build the target by its newest attempts."""
    found: set[str] = set()
    for generation in reversed(control.generations(SEARCHED)):
        if len(found) == len(dags):
            break
        with suppress(DocumentDamaged, NotFound):
            document = control.attempt(generation)
            found |= {dag for dag in dags if _builds(document, dag)}
    return found


def _builds(document: Mapping[str, Any], dag: str) -> bool:
    return document.get("dag_id") == dag and document.get("task") not in _ORDERS


_ORDERS = (Verb.CANCEL.value, *(errand.value for errand in Errand))


def not_built(target: str, dags: Iterable[str]) -> NotPlanned:
    """For a target that none of these DAGs has worked on."""
    named = ", ".join(dags) or "a DAG that you may look at"
    return NotPlanned(
        f"no attempt of {named} is stored beside {target}: another DAG builds it, or the folder beside it was lost; "
        "open the build from the DAG that builds it, or clear a task of that DAG",
        target=target,
    )


_LOCK = Lock()
_THREADS: dict[tuple[str, str, str | None], _Threads] = {}


def _threads_of(place: _Place) -> _Threads:
    target, connection, *_ = place
    try:
        location = Location.parse(target)
        key = (location.scheme, location.authority, connection)
    except BackfillError:
        key = ("", "", connection)
    with _LOCK:
        return _THREADS.setdefault(key, _Threads())


def _result(future: Future[dict[str, Any]], place: _Place) -> dict[str, Any]:
    if not future.done():
        late = f"the store of {place[0]} has not answered within {DEADLINE_SECONDS:g} s; its state is unknown"
        return {"trouble": troubled(SourceUnavailable(late))}
    error = future.exception()
    return future.result() if error is None else {"trouble": troubled(error)}


def troubled(error: BaseException) -> dict[str, Any]:
    """An error as JSON, with its way out."""
    if isinstance(error, BackfillError):
        return {**told(error), "message": clipped(error.message), "data": clipped(error.to_json()["data"])}
    log.error("a build could not be read", exc_info=error)
    said = clipped(f"{type(error).__name__}: {error}")
    return {"code": "UNEXPECTED", "message": said, "way_out": "The log of the API server has more.", "retry": True}
