"""A strategy that the package does not know, on real tables: from its plan to upstream, with gate and command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.gates.gate import Conditions, Ready, Verdict, Waiting, decide
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.open_source import watch_source
from tests import fifth_strategy
from tests.fifth_strategy import NAME
from tests.spark.build import NONE, Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_it_builds_hands_over_and_follows_a_table(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fifth_strategy.register()
    for n in range(3):
        source.append(1000 * n + 2000, 1000 * n + 2050)
    build = Build(source, tmp_path / "target", lanes=2, strategy=NAME, where="part <> 2")
    pinned = build.plan().plan.source.epoch
    assert (build.report["strategy"], build.report["why"]) == (NAME, "what is in the last files is wanted first")
    source.sql("UPDATE $table SET $n = 5 WHERE $id % 7 = 1")
    build.run(SnapshotGoal(1, 2, build.size))
    assert main(["status", build.target]) == 0
    assert "blocks" in capsys.readouterr().out
    build.snapshot()
    build.assert_equal_at(pinned)
    assert isinstance(opened(build), Waiting)
    build.consume_log()
    assert isinstance(opened(build), Ready)
    build.catch_up()
    assert build.verify().certificate is not None
    build.finish()
    source.sql("DELETE FROM $table WHERE $id % 5 = 2")
    assert build.upstream().phase is Phase.UPSTREAM
    build.assert_equal_at(source.head)
    assert main(["status", build.target]) == 0
    assert "upstream" in capsys.readouterr().out


def opened(build: Build) -> Verdict:
    """What the gate says now."""
    state = build.reader.state()
    seen = watch_source(state.plan).view(state.reached)
    return decide(state, seen, [], Conditions(NONE), 0)
