"""A cluster for tests: it runs applications without Spark, each in a thread, and servers in front of it speak the API
of a platform.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.testing.applications import main
from tests.loopback import answering


@dataclass
class Job:
    """One application. ``state`` is running, success, failed or killed."""

    application: str
    arguments: Sequence[str]
    request: Any = None
    """What the platform was asked for."""
    state: str = "running"
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str) -> None:
        self.state = state
        self.ended.set()


class Cluster:
    """Runs jobs, unless it is told to keep them: then they run on until they are killed or ``let_go``."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.keeps = False
        self.fences = False
        """Whether a newer attempt has taken over from each."""
        self.started = threading.Event()

    def run(self, application: str, arguments: Sequence[str], request: Any = None) -> int:
        """Start an application; its number."""
        job = Job(application, tuple(arguments), request)
        self.jobs.append(job)
        if not self.keeps:
            threading.Thread(target=self._work, args=(job,), daemon=True).start()
        self.started.set()
        return len(self.jobs) - 1

    def let_go(self, number: int) -> None:
        """Let a job that was kept do its work."""
        self._work(self.jobs[number])

    def kill(self, number: int) -> None:
        if self.jobs[number].state == "running":
            self.jobs[number].end("killed")

    def _work(self, job: Job) -> None:
        outcome = _fenced(job) if self.fences else main(Path(job.application).stem, job.arguments)
        job.end("success" if outcome["code"] == "OK" else "failed")


def _fenced(job: Job) -> dict[str, Any]:
    words = dict(zip(job.arguments, job.arguments[1:], strict=False))
    outcome = {"code": "FENCED", "message": "taken over", "retry": False, "data": {}}
    me = Attempt(int(words["--generation"]), words["--attempt"])
    ControlFolder.beside(words["--target"]).store_outcome(me, outcome)
    return outcome


class Created(dict[str, Any]):
    """What a server has created, for status 201."""


Answer = Callable[["re.Match[str]", Any], Any]
"""What a server answers to a path that matches, and a body. None: 404."""


@contextmanager
def serving(routes: Sequence[tuple[str, str, Answer]]) -> Iterator[str]:
    """A server on loopback that answers JSON by method and path; its address."""
    unknown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            for method, path, reply in routes:
                found = re.fullmatch(path, self.path)
                if method == self.command and found:
                    said = reply(found, body)
                    status = 404 if said is None else 201 if isinstance(said, Created) else 200
                    return self.say(status, {"message": "there is no such thing"} if said is None else said)
            unknown.append(f"{self.command} {self.path}")
            return self.say(404, {"message": "unknown"})

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer

        def say(self, status: int, document: Any) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with answering(Handler) as address:
        yield address
    assert not unknown, unknown
