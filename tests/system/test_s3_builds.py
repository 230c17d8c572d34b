"""Whole builds on S3, through S3A, while the source keeps changing: killed, and with answers that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from airflow_backfill.core.errors import CredentialsExpired
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications
from tests.system.identity import identity
from tests.system.lake import ALL, KILLS, SMALL, Lake
from tests.system.s3 import SECRET
from tests.system.test_cluster import SOON
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.soak]

RACES = 200
BUSY_SECONDS = 20.0
TOKEN_SECONDS = 70.0
"""The SDK of S3A takes another token a minute before one ends."""


@pytest.fixture(autouse=True)
def every_token_is_good(lake: Lake) -> Iterator[None]:
    yield
    lake.way.knows = lambda token: True


@contextmanager
def no_argument_has(secret: str) -> Iterator[None]:
    """All processes of this machine are looked at every few moments."""
    over, found = Event(), set[str]()

    def look() -> None:
        while not over.wait(0.2):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    if secret in file.read_text(errors="replace"):
                        found.add(file.read_text(errors="replace"))

    thread = Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not found


@pytest.mark.parametrize("strategy", list(KILLS))
def test_a_build_goes_on_after_each_kill(lake: Lake, strategy: str) -> None:
    apps = lake.applications(strategy, lake.way.behind)
    with no_argument_has(SECRET):
        lake.kill(apps, strategy)
    assert not any(SECRET in said for said in apps.log)


def test_lost_answers_to_commits_are_settled_by_reading_back(lake: Lake) -> None:
    """S3A asks again, is told that the file exists, and Delta takes its own commit for another writer's."""
    lake.lose_answers(lake.applications("lost"))


@contextmanager
def in_rounds(lake: Lake, apps: Applications) -> Iterator[tuple[BuildReader, Attempt]]:
    """A planned build in the middle of its rounds; at the end its application is waited for."""
    apps.result("plan", "--spec", lake.spec(apps.target))
    reader = BuildReader(apps.target)
    before = reader.log.head()
    with apps.running("snapshot", *SMALL, *ALL) as me:
        until(lambda: reader.log.head() >= before + 2, SOON)
        yield reader, me


def paused(reader: BuildReader) -> None:
    """Wait until a record says so."""
    pause, tries = Event(), 600
    while not reader.state().control.paused:
        tries -= 1
        assert tries and not pause.wait(0.2)


def test_credentials_that_expire_in_a_round_end_the_attempt_and_not_the_build(lake: Lake) -> None:
    apps = lake.applications("expired")
    with lake.writer():
        with in_rounds(lake, apps) as (reader, me):
            lake.way.expired = True
        assert "[CREDENTIALS_EXPIRED]" in apps.log[-1] and "the outcome cannot be stored" in apps.log[-1]
        with pytest.raises(CredentialsExpired):
            reader.state()
        lake.way.expired = False
        assert reader.control.outcome(me) is None
    finished = apps.result("snapshot", *SMALL, *ALL)
    lake.check(apps.target, finished["epoch"], finished["target_version"])


def test_a_token_that_expires_between_two_rounds_costs_a_retry_with_a_new_one(lake: Lake) -> None:
    """The token of an Airflow connection: nobody renews it while an application runs."""
    apps = lake.applications("renewed")
    good = {"first"}
    lake.way.knows = good.__contains__
    apps.environment = {"AWS_SESSION_TOKEN": "first"}
    with lake.writer():
        with in_rounds(lake, apps) as (reader, me):
            reader.control.order(reader.state().plan.build, Command(Verb.PAUSE))
            paused(reader)
            good.clear()
        assert "[CREDENTIALS_EXPIRED]" in apps.log[-1] and reader.control.outcome(me) is None
        assert CredentialsExpired.retry
        before = reader.state().totals.snapshot_rows
        reader.control.order(reader.state().plan.build, Command(Verb.RESUME))
        good.add("second")
        apps.environment = {"AWS_SESSION_TOKEN": "second"}
        finished = apps.result("snapshot", *SMALL, *ALL)
    assert 0 < before < finished["rows"]["consuming_snapshot"]
    lake.check(apps.target, finished["epoch"], finished["target_version"])


def test_an_identity_that_renews_itself_costs_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each token ends while the build waits between two rounds; driver and readers ask for the next one."""
    apps = lake.applications("identity")
    with lake.writer(), identity(TOKEN_SECONDS, tmp_path / "who") as who:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        for name, value in who.environment.items():
            monkeypatch.setenv(name, value)
        lake.way.knows = who.knows
        with in_rounds(lake, apps) as (reader, me):
            build = reader.state().plan.build
            reader.control.order(build, Command(Verb.PAUSE))
            paused(reader)
            first = len(who.ends)
            Event().wait(2 * TOKEN_SECONDS)
            reader.control.order(build, Command(Verb.RESUME))
        outcome = reader.control.outcome(me)
        assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-5000:])
    assert len(who.ends) > first > 0 and not who.refused
    lake.check(apps.target, outcome["result"]["epoch"], outcome["result"]["target_version"])


def test_a_service_that_is_too_busy_for_a_while_costs_time_only(lake: Lake) -> None:
    """It refuses every request for 20 seconds, in the middle of rounds."""
    apps = lake.applications("busy")
    with lake.writer():
        with in_rounds(lake, apps) as (reader, me):
            lake.way.busy = True
            Event().wait(BUSY_SECONDS)
            lake.way.busy = False
        outcome = reader.control.outcome(me)
        assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-5000:])
    lake.check(apps.target, outcome["result"]["epoch"], outcome["result"]["target_version"])


def test_two_applications_race_and_no_commit_is_lost(lake: Lake, tmp_path: Path) -> None:
    lake.race(lake.applications("racing"), RACES, tmp_path)
