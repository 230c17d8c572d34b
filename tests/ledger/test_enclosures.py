"""Records that are too large for a commit lie beside the target, and the commit names them by their hash."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger import enclosures
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.reader import BuildReader
from tests.core.running import Running
from tests.core.tasks import FINISH, VERIFY, V, follow
from tests.ledger.json_target import JsonBuild


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JsonBuild:
    """Every record of it is too large for a commit."""
    monkeypatch.setattr(enclosures, "MAX_RECORD_BYTES", 100)
    return JsonBuild(tmp_path)


def files(build: JsonBuild) -> list[Path]:
    return sorted(Path(build.location + SUFFIX, "records").iterdir())


def test_a_build_of_large_records_reaches_its_end_and_is_read_by_everybody(build: JsonBuild) -> None:
    state = build.finished()
    build.write(times=2)
    build.run(follow(V + 2))
    assert state.certificate is not None
    assert BuildReader(build.location).state().applied == V + 2
    texts = [build.target.read(v).user_metadata for v in range(1, build.target.head + 1)]
    assert all(text is not None and len(text) <= 100 for text in texts)
    assert len(files(build)) == len(texts), "one file for each, the plan's included"


@pytest.mark.parametrize("damage", ["missing", "altered", "cut off"])
def test_a_record_that_is_lost_or_altered_is_named_and_a_recovery_lives_it_down(damage: str, build: JsonBuild) -> None:
    build.caught_up()
    name = json.loads(build.target.read(build.target.head).user_metadata or "")["airflow_backfill_record"]
    newest = Path(build.location + SUFFIX, "records", f"{name}.json")
    text = newest.read_text()
    newest.unlink() if damage == "missing" else newest.write_text(text[:-9] if damage == "cut off" else text + " ")
    with pytest.raises(RecordInvalid, match="table-backfill recover") as raised:
        BuildReader(build.location).state()
    assert name in raised.value.data["file"]
    state: BuildState = Running(build, recover(build.attempt(), V)).finish()
    assert state.handoff == V
    build.run(VERIFY)
    assert build.run(FINISH).applied == V


def test_a_retry_writes_the_same_file_and_mends_a_damaged_one(build: JsonBuild) -> None:
    text = "x" * 1000
    said = build.reader.control.enclosures.enclosed(text)
    (file,) = files(build)
    file.write_text("y")
    assert build.reader.control.enclosures.enclosed(text) == said
    assert file.read_text() == text and files(build) == [file]


@pytest.mark.slow
def test_ten_thousand_partitions_fit(tmp_path: Path) -> None:
    """Their record is many times as large as what a commit holds, and is read back as it was."""
    build = JsonBuild(tmp_path)
    splits = Partitions("t" * 22, tuple(Split(n) for n in range(10_000)), "rules")
    text = replace(build.draft(), splits=splits).encode()
    assert len(text) > 1 << 20
    assert len(build.reader.control.enclosures.enclosed(text)) < 200
    (file,) = files(build)
    assert Plan.from_json(json.loads(file.read_text())).splits == splits
