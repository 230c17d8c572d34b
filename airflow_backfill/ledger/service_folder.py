"""The folder of a service: requests, who has taken them, and heartbeats.

``requests/`` has one file for each request whose work is wanted. ``taken/`` names the service that has taken a request;
its files are created only if absent. ``watched/`` has the last sign of the task that waits for a request, ``refused/``
the errors of files that are no requests of the service's version, and ``services/`` a heartbeat for each service. The
folder is small: what ended is deleted. It holds nothing of a build: if it is lost, the waiting tasks end and are
retried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from airflow_backfill.core.errors import BackfillError, RecordInvalid, error_in
from airflow_backfill.core.service.heartbeat import Heartbeat
from airflow_backfill.core.service.request import TIME_DIGITS, Request, of_attempt
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.store import NotFound, Store

MAX_BYTES = 1 << 20
_SUFFIX = ".json"


class ServiceFolder:
    """The files of one service. Several services may serve one folder."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @staticmethod
    def at(location: str, spark: Any = None, options: StoreOptions = None) -> ServiceFolder:
        """The folder at this location; ``options`` as for ``open_store``."""
        return ServiceFolder(open_store(location, spark=spark, options=options))

    # --- for whoever asks ---

    def ask(self, request: Request) -> None:
        """Make the request. Repeating it, after a lost answer, changes nothing."""
        self._store.create(_request(request.name), json.dumps(request.to_json()).encode())

    def wanted(self, name: str) -> bool:
        """Whether the request is still there: neither withdrawn, nor has its work ended."""
        return self._read(_request(name)) is not None

    def taken_by(self, name: str) -> str | None:
        """The service that has taken the request; None if no service has."""
        found = self._read(_taken(name))
        match found:
            case None:
                return None
            case {"service": str(service)}:
                return service
        raise RecordInvalid(f"{self._store.url}/{_taken(name)} names no service; delete it", file=_taken(name))

    def heartbeat(self, service: str) -> Heartbeat | None:
        """The last heartbeat of a service; None if it has ended."""
        found = self._read(_service(service))
        return None if found is None else Heartbeat.from_json(found)

    def watch(self, name: str, sign: int) -> None:
        """Leave a sign that the request is watched: any number that differs from the last one."""
        self._store.put(_watched(name), json.dumps({"sign": sign}).encode())

    def remove(self, name: str) -> None:
        """Remove a request: it is withdrawn, or has ended. The request goes first, so nobody takes it a second time."""
        self._store.delete(_request(name))
        self._store.delete(_taken(name))
        self._store.delete(_watched(name))

    def refusal(self, attempt: str) -> BackfillError | None:
        """Why a service has refused the request of an attempt; None if none has."""
        name = of_attempt(self._store.list("refused"), attempt)
        found = None if name is None else self._read(_refused(name))
        return None if found is None else error_in(found)

    # --- for services ---

    def names(self) -> list[str]:
        """The names of all requests, oldest first."""
        return list(self._store.list("requests"))

    def untaken(self, names: Sequence[str]) -> list[str]:
        """Those of the names that no service has taken."""
        taken = frozenset(self._store.list("taken"))
        return [name for name in names if name not in taken]

    def take(self, name: str, service: str) -> Request | None:
        """The request, now taken by this service; None if another service has it, or nobody wants it any longer.

        RecordInvalid for a file that is no request.
        """
        created = self._store.create(_taken(name), json.dumps({"service": service}).encode())
        # After a lost answer the file may be this service's own.
        if not created and self.taken_by(name) != service:
            return None
        # Read only now: before, another service may have ended it and removed both files.
        found = self._read(_request(name))
        if found is None:
            self._store.delete(_taken(name))
            return None
        return Request.from_json(found)

    def refuse(self, name: str, error: BackfillError) -> None:
        """Remove a file that is no request, and tell whoever waits for it why."""
        self._store.put(_refused(name), json.dumps(error.to_json()).encode())
        self.remove(name)

    def sign(self, name: str) -> bytes | None:
        """The last sign of whoever watches the request; None if nobody has left one, as older versions do."""
        try:
            return self._store.read(_watched(name), MAX_BYTES)
        except NotFound:
            return None

    def beat(self, service: str, heartbeat: Heartbeat) -> None:
        """Store a heartbeat."""
        self._store.put(_service(service), json.dumps(heartbeat.to_json()).encode())

    def leave(self, service: str) -> None:
        """Remove the heartbeat of a service that has ended."""
        self._store.delete(_service(service))

    def sweep(self, before: int) -> None:
        """Remove heartbeats and refusals from before this time (milliseconds since 1970), and takers and signs of
        requests that nobody wants any longer.
        """
        for name, found in self._services():
            if found.at < before:
                self.leave(name)
        for name in self._store.list("refused"):
            if not name[:TIME_DIGITS].isdecimal() or int(name[:TIME_DIGITS]) < before:
                self._store.delete(_refused(name))
        left = {place: self._store.list(place) for place in ("taken", "watched")}
        wanted = set(self.names())  # listed last: of a request that is made meanwhile nothing was listed
        for place, names in left.items():
            for name in names:
                if name not in wanted:
                    self._store.delete(f"{place}/{name}")

    def _services(self) -> Iterator[tuple[str, Heartbeat]]:
        """Services with a heartbeat of this version."""
        for file in self._store.list("services"):
            name = file.removesuffix(_SUFFIX)
            with suppress(RecordInvalid):
                found = self.heartbeat(name)
                if found is not None:
                    yield name, found

    def _read(self, name: str) -> Any:
        """The document; None if there is none."""
        try:
            return json.loads(self._store.read(name, MAX_BYTES))
        except NotFound:
            return None
        except ValueError:
            raise RecordInvalid(f"{self._store.url}/{name} is not JSON; delete it", file=name) from None


def _request(name: str) -> str:
    return f"requests/{name}"


def _taken(name: str) -> str:
    return f"taken/{name}"


def _refused(name: str) -> str:
    return f"refused/{name}"


def _watched(name: str) -> str:
    return f"watched/{name}"


def _service(name: str) -> str:
    return f"services/{name}{_SUFFIX}"
