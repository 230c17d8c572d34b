"""Takes requests and runs each in a thread, until its time is over.

It knows nothing of Spark: what a request's work is, and how its jobs are cancelled, is given. A request that is
withdrawn while its work runs is stopped. So is one whose task is gone: nobody has watched it for a while. When the
service drains, it takes no more requests, lets those that run go on for a while, and then stops them: their tasks are
retried, and lose at most a round.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from uuid import uuid4

from airflow_backfill.core.errors import BackfillError, CredentialsExpired
from airflow_backfill.core.service.heartbeat import BEAT_SECONDS, UNWATCHED_SECONDS, WATCH_SECONDS, Heartbeat
from airflow_backfill.core.service.request import Request
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.service_folder import ServiceFolder

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Time between two looks for requests."""
STOP_SECONDS = 60.0
"""How long work may take to end once it is stopped. Then the service ends without it, as if it was killed."""
FORGOTTEN_MS = 86_400_000
"""A heartbeat that is older was left by a killed service."""

Work = Callable[[Request, Event], None]
"""Does the work of a request and stores its outcome; ends soon after the event is set."""


@dataclass
class _Running:
    request: Request
    thread: Thread
    stopped: Event = field(default_factory=Event)
    sign: bytes | None = None
    """The last sign of the task that waits for it."""
    signed: float = field(default_factory=time.monotonic)
    """When that was found to be new."""
    looked: float = float("-inf")


@dataclass
class Service:
    """One service of a folder. ``application`` and ``ui`` tell people where it runs."""

    folder: ServiceFolder
    work: Work
    cancel: Callable[[Request], None]
    """Cancels the jobs that a request has now. Called again and again until its thread has ended."""
    check: Callable[[], None]
    """Raises if no work can be done any longer. Called at each turn."""
    make_thread: Callable[..., Thread] = Thread
    at_once: int = 8
    application: str = ""
    ui: str = ""
    name: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._unsure: set[str] = set()
        """Requests that this service may have taken: the store failed before it knew."""
        self._beats = 0
        self._beaten = 0.0
        self._swept = False

    def serve(self, seconds: float, drain_seconds: float) -> None:
        """Serve for ``seconds``, then drain: after at most ``drain_seconds`` whatever still runs is stopped."""
        log.info("service %s takes requests", self.name)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._turn(takes=True)
        log.info("service %s takes no more requests; %d are under way", self.name, len(self._running))
        ends = time.monotonic() + drain_seconds
        while self._running and time.monotonic() < ends + STOP_SECONDS:
            self._turn(stops=time.monotonic() >= ends)
        self.folder.leave(self.name)

    def _turn(self, *, takes: bool = False, stops: bool = False) -> None:
        """Look once at everything; ``stops``: end all work. While the store fails, nothing begins and nothing ends, and
        after a while whoever waits for this service gives it up. Credentials that have expired end it: nobody renews
        them, but the next service begins with new ones.
        """
        self.check()
        try:
            if not self._swept:
                self.folder.sweep(now_ms() - FORGOTTEN_MS)
                self._swept = True
            self._beat(draining=not takes)
            names = self.folder.names()
            self._look([] if stops else names)
            if takes:
                self._take([name for name in names if name not in self._running])
        except BackfillError as error:
            if not error.retry or isinstance(error, CredentialsExpired):
                raise
            log.warning("the folder of the service fails: %s", error)
        time.sleep(LOOK_SECONDS)

    def _look(self, wanted: Collection[str]) -> None:
        """Remove what has ended, and stop what is no longer wanted."""
        for name, running in list(self._running.items()):
            if not running.thread.is_alive():
                self.folder.remove(name)
                del self._running[name]
            elif name not in wanted:
                running.stopped.set()
                self.cancel(running.request)
            elif self._forgotten(name, running):
                log.warning("%s is withdrawn: its task has not looked at it for a long time, so it is gone", name)
                self.folder.remove(name)

    def _forgotten(self, name: str, running: _Running) -> bool:
        """Whether the task that waits for the request has left no new sign for too long, by this process's own clock.
        An older version of the package leaves none, so that nothing is known.
        """
        now = time.monotonic()
        if now - running.looked < WATCH_SECONDS:
            return False
        sign, running.looked = self.folder.sign(name), now
        if sign is None or sign != running.sign:
            running.sign, running.signed = sign, now
        return now - running.signed >= UNWATCHED_SECONDS

    def _take(self, names: Sequence[str]) -> None:
        free = {*self.folder.untaken(names), *self._unsure} if names else ()
        for name in names:
            if len(self._running) >= self.at_once:
                return
            if name not in free:
                continue
            self._beat(draining=False)  # each takes several requests to the store, and there may be thousands
            self._unsure.add(name)
            try:
                request = self.folder.take(name, self.name)
            except BackfillError as error:
                if error.retry:
                    raise
                log.error("%s is refused: %s", name, error)
                self.folder.refuse(name, error)
                request = None
            self._unsure.remove(name)
            if request is not None:
                self._start(request)

    def _start(self, request: Request) -> None:
        log.info("%s of %s begins", request.application, request.target)
        running = _Running(request, self.make_thread(target=self._run, args=(request,), daemon=True))
        running.thread.name = f"{request.application} {request.target.rpartition('/')[2]}"
        self._running[request.name] = running
        running.thread.start()

    def _run(self, request: Request) -> None:
        try:
            self.work(request, self._running[request.name].stopped)
        except BaseException:
            log.exception("%s of %s ended without an outcome", request.application, request.target)

    def _beat(self, *, draining: bool) -> None:
        if self._beats and time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beats, self._beaten = self._beats + 1, time.monotonic()
        beat = Heartbeat(self._beats, self.application, self.ui, now_ms(), len(self._running), draining)
        self.folder.beat(self.name, beat)
