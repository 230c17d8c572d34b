"""What was predicted against what the target's commits say."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.builds.accuracy import accuracy
from airflow_backfill.builds.history import barriers_in
from airflow_backfill.cli.main import main
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.reports.accuracy import described
from airflow_backfill.core.state.effect import CommitRecord
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.phase import Event
from airflow_backfill.ledger.enclosures import TargetLog
from tests.core.model_target import PATIENCE, ROUND
from tests.core.tasks import CATCH_UP, CONSUME, READ
from tests.ledger.json_target import JsonBuild

REHEARSAL = {"snapshot_seconds": 20.0, "start_seconds": 10.0, "log_seconds": 4.0}


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path)
    build.write_ms = 2_000
    plan = build.plan()
    build.reader.control.store_report(plan.build, {"rehearsal": REHEARSAL})
    return build


def test_nothing_has_happened_yet(build: JsonBuild) -> None:
    found = accuracy(build.location)
    assert found is not None and found["snapshot"] == {"predicted": 10.0, "actual": None, "error": None}
    assert described(found) == "snapshot 10 seconds, not ended yet; log 4 seconds, not ended yet"


def test_what_happened_is_compared(build: JsonBuild, capsys: pytest.CaptureFixture[str]) -> None:
    build.write(times=3)
    build.run(READ)
    build.run(CONSUME)
    build.run(CATCH_UP)
    found = accuracy(build.location)
    assert found is not None and found["snapshot"]["actual"] > 0 and found["log"]["actual"] > 0
    assert found["snapshot"]["error"] == round(found["snapshot"]["actual"] / 10 - 1, 3)
    assert main(["status", build.location]) == 0
    assert "predicted snapshot 10 seconds, took" in capsys.readouterr().out


@pytest.mark.parametrize(("epochs", "seconds"), [(0, 4.0), (3, 6.0)])
def test_the_log_may_be_left_to_the_catch_up(build: JsonBuild, epochs: int, seconds: float) -> None:
    """The gate may be open at once: then the hand-off epoch is pinned before anything is applied."""
    build.run(READ)
    build.write(times=epochs)
    build.run(ConsumeLogGoal(ROUND, MaxLag(epochs=99), PATIENCE))
    build.run(CatchUpGoal(ROUND, MaxLag(epochs=99), PATIENCE))
    events = [one.record.event for one in barriers_in(build.reader.log, build.reader.state().plan.build, range(99))]
    pinned = [Event.SEAL, Event.CLAIM, Event.PIN]
    assert events[events.index(Event.SEAL) :] == ([*pinned, Event.EPOCHS] if epochs else pinned)
    found = accuracy(build.location)
    assert found is not None and found["log"] == {"predicted": 4.0, "actual": seconds, "error": seconds / 4 - 1}


def test_few_commits_of_a_long_build_are_read(build: JsonBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    build.write(times=3)
    for _ in range(100):
        build.start(READ).until(CommitRecord, nth=2)  # each leaves a claim
    build.run(READ)
    build.run(CONSUME)
    read: list[int] = []
    original = TargetLog.read

    def counting(log: TargetLog, version: int) -> Commit:
        read.append(version)
        return original(log, version)

    monkeypatch.setattr(TargetLog, "read", counting)
    found = accuracy(build.location)
    assert found is not None and found["snapshot"]["actual"] > 0 and found["log"]["actual"] > 0
    assert build.reader.log.head() > 100 and 0 < len(read) < 90


def test_without_a_prediction_nothing_is_compared(tmp_path: Path) -> None:
    other = JsonBuild(tmp_path)
    plan = other.plan()
    assert accuracy(other.location) is None
    Path(f"{other.location}.backfill/plans/{plan.build}.report.json").write_text("{")
    assert accuracy(other.location) is None
