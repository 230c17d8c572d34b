"""Applications that a service runs: several builds at once in one Spark, each as if it were alone."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.spark.service import served
from airflow_backfill.spark.service import service as module
from airflow_backfill.spark.service.service import Service
from tests.spark.history import Source
from tests.spark.locks import free

pytestmark = pytest.mark.spark

SOON = 120.0
WHOLE = ("consume_log --max-lag-epochs 0", "catch_up --max-lag-epochs 0", "verify", "finish")
THEN = [part for phase in WHOLE for part in ("--then", phase)]


class Asked:
    """A service in this process, and whoever asks it."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.folder, self._generation = ServiceFolder.at(str(place)), 0
        self._healthy, self.broken = True, Event()
        self.service = Service(
            self.folder,
            partial(served.serve, spark, self.broken),
            partial(served.cancel, spark),
            self._check,
            make_thread=InheritableThread,
        )
        self.thread = Thread(target=self._serve)

    def _check(self) -> None:
        if not self._healthy:
            raise InterruptedError

    def _serve(self) -> None:
        try:
            self.service.serve(10 * SOON, SOON)
        except InterruptedError:
            pass

    def end(self) -> None:
        self._healthy = False
        self.thread.join(SOON)

    def ask(self, application: str, target: str, *arguments: str) -> Request:
        self._generation += 1
        me = Attempt(self._generation, f"attempt-{self._generation}")
        place = ("--target", target, "--generation", str(me.generation), "--attempt", me.name)
        request = Request(application, target, me, (*place, *arguments), self._generation)
        self.folder.ask(request)
        return request

    def outcome(self, request: Request) -> dict[str, Any]:
        wait(lambda: not self.folder.wanted(request.name))
        outcome = ControlFolder.beside(request.target).outcome(request.attempt)
        assert outcome is not None
        return outcome


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    asked = Asked(spark, tmp_path / "service")
    asked.thread.start()
    yield asked
    asked.end()


def wait(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def spec(source: Source, target: str, **more: Any) -> str:
    return json.dumps({"name": "b", "source": source.path, "target": target, "key": [source.key], **more})


def test_builds_side_by_side_are_proven_and_a_wrong_request_has_its_code(
    asked: Asked, source: Source, tmp_path: Path
) -> None:
    targets = [str(tmp_path / f"target {n}") for n in range(3)]
    *others, small = targets
    plans = [asked.ask("plan", target, "--spec", spec(source, target)) for target in others]
    plans += [asked.ask("plan", small, "--spec", spec(source, small), "--then", "snapshot", *THEN)]
    wrong = [
        asked.ask("snapshot", str(tmp_path / "wrong"), "--no-such-option"),
        asked.ask("gate", str(tmp_path / "wrong")),
        asked.ask("unheard_of", str(tmp_path / "wrong")),
        asked.ask("plan", str(tmp_path / "wrong"), "--target", str(tmp_path / "other")),
    ]
    assert [asked.outcome(plan)["code"] for plan in plans] == ["OK"] * 3
    assert [asked.outcome(one)["code"] for one in wrong] == ["SPEC_INVALID"] * 4
    assert BuildReader(small).state().phase is Phase.FINISHED
    builds = [asked.ask("snapshot", target, *THEN) for target in targets]
    assert [asked.outcome(build)["code"] for build in builds] == ["OK"] * 3
    for target in targets:
        state = BuildReader(target).state()
        assert state.phase is Phase.FINISHED and state.certificate is not None
        assert free(target)
        built = source.spark.read.format("delta").load(target)
        assert sorted(built.collect()) == sorted(source.spark.read.format("delta").load(source.path).collect())
    assert not asked.folder.names()
    pools = source.spark.sparkContext._jsc.sc().getAllPools()
    names = [pools.apply(n).name() for n in range(pools.size())]
    assert sorted(name for name in names if "target" in name or "attempt" in name) == targets


def test_a_withdrawn_request_ends_its_jobs_and_the_next_attempt_goes_on(
    asked: Asked, source: Source, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    assert asked.outcome(asked.ask("plan", target, "--spec", spec(source, target)))["code"] == "OK"
    reader = BuildReader(target)
    reader.control.order(reader.state().plan.build, Command(Verb.PAUSE))
    waits = asked.ask("snapshot", target, *THEN)
    wait(lambda: "paused" in str(reader.state().newest) and not free(target))
    asked.folder.remove(waits.name)
    wait(lambda: ControlFolder.beside(target).outcome(waits.attempt) is not None)
    outcome = ControlFolder.beside(target).outcome(waits.attempt)
    assert outcome is not None and (outcome["code"], outcome["retry"]) == ("APPLICATION_FAILED", True)
    wait(lambda: free(target))
    reader.control.order(reader.state().plan.build, Command(Verb.RESUME))
    assert asked.outcome(asked.ask("snapshot", target, *THEN))["code"] == "OK"
    assert BuildReader(target).state().phase is Phase.FINISHED


def test_a_scratch_folder_that_was_emptied_is_told_to_the_service_with_the_outcome(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that went on would fail each later request, too: Spark looks for its subfolders where they were."""
    folder = tmp_path / "blockmgr-295eb075-27bd-46e7-9454-147a2724d934"

    def shuffle(application: str, options: Any, spark: SparkSession, *_: Any) -> dict[str, Any]:
        java: Any = spark.sparkContext._jvm
        return {"read": java.java.io.FileInputStream(f"{folder}/04/{application}")}

    monkeypatch.setattr(served, "work", shuffle)
    outcome = asked.outcome(asked.ask("snapshot", str(tmp_path / "target")))
    assert (outcome["code"], outcome["retry"]) == ("APPLICATION_FAILED", True)
    wait(asked.broken.is_set)


@pytest.mark.parametrize("application", ["plan", "snapshot"])
def test_a_request_that_is_withdrawn_while_another_writer_has_the_target_gives_its_place_away(
    asked: Asked, source: Source, tmp_path: Path, application: str
) -> None:
    target = str(tmp_path / "target")
    Path(f"{target}.backfill").mkdir()
    with open(f"{target}.backfill/lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        waits = asked.ask(application, target, *(["--spec", spec(source, target)] if application == "plan" else []))
        control = ControlFolder.beside(target)
        wait(lambda: control.announced(waits.attempt) is not None)
        asked.folder.remove(waits.name)
        wait(lambda: control.outcome(waits.attempt) is not None)
    outcome = control.outcome(waits.attempt)
    assert outcome is not None and (outcome["code"], outcome["retry"]) == ("APPLICATION_FAILED", True)
