from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.builds.status import status
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.log_listing import commit_name
from tests.core.tasks import READ
from tests.ledger.json_target import JsonBuild


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path, [FileSize(1_000, 50)] * 40)
    build.plan()
    return build


def test_each_command_is_told_with_who_why_and_the_barrier_that_knows_it(build: JsonBuild) -> None:
    ann = Signature("ann", "too many writers", 5, "page")
    ordered(build.location, Command(Verb.HOLD, signed=ann))
    build.run(READ)
    ordered(build.location, Command(Verb.THROTTLE, 7, signed=Signature("bob")))
    first, second = found = status(build.location, commits=100)["commands"]
    assert json.loads(json.dumps(found)) == found
    assert (first["number"], first["verb"], first["by"], first["why"]) == (1, "hold", "ann", "too many writers")
    assert (first["at"], first["via"], first["acknowledged"]) == (5, "page", True)
    claim = next(version for version in range(build.target.head + 1) if build.target.read(version).txns)
    assert (first["version"], first["acknowledged_at"]) == (claim + 1, build.target.read(claim + 1).timestamp)
    assert (second["rate"], second["by"], second["acknowledged"], second["version"]) == (7, "bob", False, None)
    assert second["at"] is not None, "the time is there although nobody named it"


def test_a_barrier_that_is_too_old_to_be_seen_is_not_guessed(build: JsonBuild) -> None:
    ordered(build.location, Command(Verb.HOLD))
    build.start(SnapshotGoal(0, 1, RoundSize(1, 10**6))).until(CommitRecord, nth=12)
    build.target.write_checksum()
    for version in range(build.target.head - 3):
        Path(build.location, "_delta_log", commit_name(version)).unlink()
    (command,) = status(build.location, commits=100)["commands"]
    assert (command["acknowledged"], command["version"], command["acknowledged_at"]) == (True, None, None)


def test_orders_that_an_application_carries_out_are_attempts(build: JsonBuild) -> None:
    build.reader.draw_attempt({"task": "repair", "by": "ann", "why": "keys differ"})
    found = [one for one in status(build.location)["attempts"] if one["by"] is not None]
    assert [(one["task"], one["by"], one["why"]) for one in found] == [("repair", "ann", "keys differ")]
