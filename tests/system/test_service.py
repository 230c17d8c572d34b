"""Eight builds in one service that is killed again and again: each goes on behind its last commit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.service_folder import ServiceFolder
from tests.system.applications import Applications, all_phases, submitted
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.soak]

BUILDS = 8
SMALL = ("--round-rows", "1000")
ALL = all_phases(lag_epochs=60)
SOON = 400.0


class Builds:
    """Targets of one source, and requests for them."""

    def __init__(self, workload: Workload, place: Path) -> None:
        self._workload, self._log = workload, place / "service.log"
        self._service = str(place / "service")
        self.targets = [str(place / f"target{n}") for n in range(BUILDS)]
        self._folder = ServiceFolder.at(self._service)

    @contextmanager
    def served(self, application: str | Path = "service") -> Iterator[Callable[[], None]]:
        """While a service runs; what this yields kills it."""
        confs = {**Applications(self.targets[0]).confs(), "spark.log.level": "ERROR"}
        spark = ["--master", "local[2]", "--driver-memory", "2g"]
        arguments = ("--service", self._service, "--at-once", str(BUILDS))
        with submitted(application, arguments, spark, confs, {}) as process:

            def kill() -> None:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

            try:
                yield kill
            finally:
                kill()
                output, _ = process.communicate()
                with self._log.open("a") as log:
                    log.write(output)

    def sign(self, request: Request, sign: int) -> None:
        """As the task does that waits for it."""
        self._folder.watch(request.name, sign)

    def wanted(self, request: Request) -> bool:
        return self._folder.wanted(request.name)

    def ask(self, application: str, *arguments: str) -> list[Request]:
        """An attempt for each target, newer than all before."""
        asked = []
        for target in self.targets:
            reader = BuildReader(target)
            me = reader.draw_attempt({"task": application})
            own = ("--spec", self._workload.spec(target)) if application == "plan" else ()
            place = ("--target", target, "--generation", str(me.generation), "--attempt", me.name)
            asked.append(Request(application, target, me, (*place, *own, *arguments), time.time_ns() // 1_000_000))
            self._folder.ask(asked[-1])
        return asked

    def results(self, asked: list[Request]) -> None:
        """Wait until all have ended, and well."""
        wait(lambda: not any(self._folder.wanted(request.name) for request in asked))
        for request in asked:
            outcome = BuildReader(request.target).control.outcome(request.attempt)
            assert outcome is not None and outcome["code"] == "OK", (outcome, self._log.read_text()[-3000:])

    def withdraw(self, asked: list[Request]) -> None:
        for request in asked:
            self._folder.remove(request.name)

    def rounds(self) -> list[int]:
        """Of each target, the commits so far."""
        return [BuildReader(target).log.head() for target in self.targets]

    def begun(self, before: list[int]) -> bool:
        """Whether each has committed a claim and rounds, or has finished."""
        states = (BuildReader(target).state() for target in self.targets)
        ended = [state.phase is Phase.FINISHED for state in states]
        return all(now >= then + 3 or over for now, then, over in zip(self.rounds(), before, ended, strict=True))

    def rows(self) -> list[int]:
        return [BuildReader(target).state().totals.snapshot_rows for target in self.targets]


def wait(happened: Callable[[], bool]) -> None:
    pause, end = Event(), time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < end
        pause.wait(0.2)


def test_a_killed_service_costs_each_build_at_most_a_round(workload: Workload, tmp_path: Path) -> None:
    builds = Builds(workload, tmp_path)
    with workload.writer():
        with builds.served():
            builds.results(builds.ask("plan"))
        rows = builds.rows()
        for _ in range(2):
            before = builds.rounds()
            asked = builds.ask("snapshot", *SMALL, *ALL)
            with builds.served() as kill:
                wait(partial(builds.begun, before))
                kill()
            builds.withdraw(asked)
            after = builds.rows()
            assert all(now >= then for now, then in zip(after, rows, strict=True)), "nothing that was committed is lost"
            assert sum(after) > sum(rows)
            rows = after
        with builds.served():
            builds.results(builds.ask("snapshot", *SMALL, *ALL))
    for target in builds.targets:
        state = BuildReader(target).state()
        assert state.phase is Phase.FINISHED and state.certificate is not None and state.handoff is not None
        workload.check(target, state.handoff, state.certificate.target_version)


def test_a_request_whose_task_is_gone_ends_and_the_one_of_another_task_goes_on(
    workload: Workload, tmp_path: Path
) -> None:
    """Both builds are paused: their applications would wait for ever."""
    builds = Builds(workload, tmp_path)
    del builds.targets[2:]
    with builds.served(Path(__file__).with_name("impatient_service.py")):
        builds.results(builds.ask("plan"))
        for target in builds.targets:
            reader = BuildReader(target)
            reader.control.order(reader.state().plan.build, Command(Verb.PAUSE))
        gone, watched = builds.ask("snapshot", *SMALL)
        builds.sign(gone, 1)
        signs = count(1)

        def ended() -> bool:
            builds.sign(watched, next(signs))
            return not builds.wanted(gone)

        wait(ended)
        control = BuildReader(gone.target).control
        wait(lambda: control.outcome(gone.attempt) is not None)
        outcome = control.outcome(gone.attempt) or {}
        assert (outcome["code"], outcome["retry"]) == ("APPLICATION_FAILED", True)
        assert "its task no longer waits for it" in outcome["message"]
        assert builds.wanted(watched) and BuildReader(watched.target).control.outcome(watched.attempt) is None
