"""An epoch that is larger than a round is read once for all rounds and attempts, and nothing depends on that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.errors import ApplicationFailed
from airflow_backfill.core.splits.position import InEpoch
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.control_folder import changes_beside
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.spark.run import interpreter
from airflow_backfill.spark.target_table import split_epochs
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark

ROUNDS = 4
STORED = f"so that {ROUNDS} rounds read them once"
NOT_USED = "each round of the epoch reads and counts all of its changes"


@pytest.fixture
def split(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> Build:
    """A build whose next epoch takes ROUNDS rounds. It has updates, deletes, new rows, and rows outside the filter."""
    monkeypatch.setattr(split_epochs, "WORTH_BYTES", 0)
    monkeypatch.setattr(split_epochs, "WORTH_ROUNDS", ROUNDS)
    caplog.set_level("INFO")
    build = Build(source, tmp_path / "target", where="part <> 2", proof="incremental")
    state = build.read()
    changed = source.rows(100, 300, "new").union(source.rows(0, 50, "old"))
    source.merge(changed, "s.id % 4 = 0")
    (epoch,) = watch_source(state.plan).view(state.reached).pending(source.head - 1)
    build.size = RoundSize(rows=-(-epoch.rows // ROUNDS))
    return build


def parts(build: Build) -> int:
    """Rounds that left the epoch in part."""
    return sum(r.event is Event.EPOCHS and isinstance(r.positions[0], InEpoch) for r in build.records())


def killed_after(rounds: int) -> Callable[..., None]:
    left = iter(range(rounds))

    def compact(*_: object) -> None:
        if next(left, None) is None:
            raise ApplicationFailed("killed")

    return compact


def assert_applied(build: Build) -> None:
    """The epoch is applied in its rounds, and nothing is left of what was stored."""
    assert parts(build) == ROUNDS - 1
    build.assert_equal_at(build.source.head)
    assert not Path(changes_beside(build.target, build.reader.state().plan.build)).exists()


@pytest.mark.soak
def test_rounds_and_attempts_share_what_is_stored(split: Build, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    with monkeypatch.context() as patched, pytest.raises(ApplicationFailed):
        patched.setattr(interpreter, "compact", killed_after(2))
        split.consume_log()
    assert caplog.text.count(STORED) == 1
    split.consume_log()
    assert caplog.text.count(STORED) == 1 and NOT_USED not in caplog.text
    assert_applied(split)
    split.catch_up()
    assert split.verify().certificate is not None


@pytest.mark.soak
def test_few_rounds_count_once_and_store_nothing(split: Build, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(split_epochs, "WORTH_ROUNDS", ROUNDS + 1)
    counted, count = [], split_epochs._counted
    monkeypatch.setattr(split_epochs, "_counted", lambda rows: counted.append(1) or count(rows))
    split.consume_log()
    assert len(counted) == 1 and STORED not in caplog.text
    assert_applied(split)


@pytest.mark.parametrize(
    "lost", ["rows", *(pytest.param(what, marks=pytest.mark.soak) for what in ("a file", "the log"))]
)
def test_without_what_is_stored_the_source_is_read(
    split: Build, lost: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    with monkeypatch.context() as patched, pytest.raises(ApplicationFailed):
        patched.setattr(interpreter, "compact", killed_after(1))
        split.consume_log()
    (stored,) = Path(changes_beside(split.target, split.reader.state().plan.build)).iterdir()
    if lost == "rows":
        split.spark.sql(f"DELETE FROM delta.`{stored}` WHERE c0 % 2 = 0")
    if lost == "the log":
        shutil.rmtree(stored / "_delta_log")
    elif lost == "a file":
        next(stored.glob("*=3/*.parquet")).unlink()
    split.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    split.consume_log()
    assert (NOT_USED in caplog.text) is (lost != "the log")
    assert_applied(split)
