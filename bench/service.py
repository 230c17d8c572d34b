"""Twenty followers of small tables through one service, compared with one that starts an application of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_backfill.core.service.request import Request
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.service_folder import ServiceFolder
from bench.contenders import attempt
from bench.follower import follower
from bench.ratio import Race, Timed
from bench.start import ENVIRONMENT, ROOT, submit
from bench.tables import Tables

TABLES = 20
POLL_SECONDS = 0.1
WARM_UP_ROUNDS = 3
"""A service works for hours: Java has compiled its code then."""


def followers(tables: Tables, base: str, rounds: int) -> Race:
    """Each follows a copy of ``base``, a finished build whose source has gone on."""
    with _served(tables.fresh("service")) as folder:

        def together(number: int) -> Timed:
            targets = [tables.copied(base, f"served-{number}-{n}") for n in range(TABLES)]
            return lambda: _asked(folder, targets)

        alone = follower(tables, base)
        contenders = {f"{TABLES} followers in a service": together, "one follower, its own start": alone}
        return Race(f"followers of {TABLES} small tables", contenders).run(rounds, WARM_UP_ROUNDS)


@contextmanager
def _served(place: str) -> Iterator[ServiceFolder]:
    """A service at work."""
    command = submit(str(ROOT / "spark_apps" / "service.py"), "--service", place, java="")
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(lambda: any(Path(place, "services").glob("*.json")))
        yield ServiceFolder.at(place)
    finally:
        process.terminate()
        process.wait()


def _asked(folder: ServiceFolder, targets: list[str]) -> None:
    requests = []
    for target in targets:
        me = attempt(target)
        place = ("--target", target, "--generation", str(me.generation), "--attempt", me.name)
        requests.append(Request("upstream", target, me, place, time.time_ns() // 1_000_000))
        folder.ask(requests[-1])
    _wait(lambda: not folder.names())
    for request in requests:
        outcome = ControlFolder.beside(request.target).outcome(request.attempt)
        assert outcome is not None and outcome["code"] == "OK", outcome


def _wait(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(POLL_SECONDS)
