"""Reads many builds at once, and waits for none that does not answer.

Each store has threads of its own, so a store that hangs keeps nobody else from answering. While a build is being read,
everybody who asks for it waits for the same answer, until its deadline has passed; after that nobody waits for it. The
time that a build waits for a thread is not its store's, so it does not count as long as threads become free.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
from airflow_backfill.ledger.store import Store
from airflow_backfill.plugin.tasks import Table

log = logging.getLogger(__name__)

READERS = FETCHERS = 100
"""Builds of one store that are read at once, and files that are fetched for them meanwhile."""
DEADLINE_SECONDS = 2.0
"""How long an answer waits for one build, from the start of its reading on."""
QUEUE_SECONDS = 10.0
"""How long it waits for that start."""

_Ahead = Mapping[str, int]
_Place = tuple[str, str | None, tuple[tuple[str, Attempt], ...]]
"""A target, its connection, and the claims of DAGs that they build it."""


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
    """Runs ``look(target, options)`` for builds. ``ahead``: of how many numbers in each folder of the target, and of
    the source, all files are fetched as soon as it is listed.
    """

    def __init__(self, look: Callable[[str, Any], dict[str, Any]], ahead: tuple[_Ahead, _Ahead]) -> None:
        self._look = look
        self._of_target, self._of_source = ahead
        self._lock = Lock()
        self._running: dict[_Place, _Reading] = {}

    def of(self, tables: Sequence[Table]) -> list[dict[str, Any]]:
        """What was found of each build, and ``dags``, which build it; ``{"trouble": error}`` if nothing was found, or
        not within the deadline. NotPlanned is the trouble if none of the DAGs has worked on the table.
        """
        places = [(table.target, table.ledger_conn_id, table.claims) for table in tables]
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
        target, connection, claims = place
        hook = LedgerHook(connection)

        opened: dict[str, FetchingStore] = {}

        def ahead(store: Store) -> Store:
            own = store.url.startswith(Location.parse(target).url)
            most = self._of_target if own else self._of_source
            return opened.setdefault(store.url, FetchingStore(store, threads.fetchers, most))

        with wrapped(ahead):
            dags = builders(hook.control(target), claims)
            if not dags:
                raise not_built(target, dict.fromkeys(dag for dag, _ in claims))
            return {**self._look(target, hook.options), "dags": dags}


def builders(control: ControlFolder, claims: Sequence[tuple[str, Attempt]]) -> list[str]:
    """The DAGs among those with a claim whose attempt lies beside the target, and is no order of people: whoever may
    steer all builds with one DAG gets no page of them by that. The newest readable attempt of each DAG counts;
    DocumentDamaged if there is none.
    """
    told: dict[str, bool] = {}
    damage = None
    for dag, attempt in claims:
        if dag not in told:
            try:
                document = control.drawn(attempt) or {}
            except DocumentDamaged as error:
                damage = error  # an earlier attempt of the DAG may tell
            else:
                told[dag] = document.get("dag_id") == dag and document.get("task") not in _ORDERS
    if damage is not None and not any(told.values()):
        raise damage
    return [dag for dag, builds in told.items() if builds]


_ORDERS = (Verb.CANCEL.value, *(errand.value for errand in Errand))


def not_built(target: str, dags: Iterable[str]) -> NotPlanned:
    """For a target that none of these DAGs has worked on."""
    named = ", ".join(dags) or "a DAG that you may look at"
    return NotPlanned(
        f"{target}: no attempt of {named} lies beside it, so its build belongs to another DAG, or the folder beside "
        "it was lost; open it from the DAG that builds it, or clear a task of that DAG",
        target=target,
    )


_LOCK = Lock()
_THREADS: dict[tuple[str, str, str | None], _Threads] = {}


def _threads_of(place: _Place) -> _Threads:
    target, connection, _ = place
    try:
        location = Location.parse(target)
        key = (location.scheme, location.authority, connection)
    except BackfillError:
        key = ("", "", connection)
    with _LOCK:
        return _THREADS.setdefault(key, _Threads())


def _result(future: Future[dict[str, Any]], place: _Place) -> dict[str, Any]:
    if not future.done():
        late = f"the store of {place[0]} has not answered within {DEADLINE_SECONDS:g} s; nothing is known of this build"
        return {"trouble": troubled(SourceUnavailable(late))}
    error = future.exception()
    return future.result() if error is None else {"trouble": troubled(error)}


def troubled(error: BaseException) -> dict[str, Any]:
    """An error as JSON, with its way out."""
    if isinstance(error, BackfillError):
        return told(error)
    log.error("a build could not be read", exc_info=error)
    said = f"{type(error).__name__}: {error}"
    return {"code": "UNEXPECTED", "message": said, "way_out": "The log of the API server has more.", "retry": True}
