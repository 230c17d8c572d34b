"""What is removed beside a target, and what stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.builds.cleaning import FORGOTTEN, clean
from airflow_backfill.builds.status import status
from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import InvalidSpec, KeyNull, NotAllowedNow
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger import control_folder
from tests.cli.schema import check
from tests.core.tasks import CATCH_UP, CONSUME, READ
from tests.ledger.json_target import JsonBuild


def failed(build: JsonBuild, at: int) -> Attempt:
    me = build.attempt()
    error = KeyNull("1 row has no key, for example secret", sample=[{"name": "secret"}])
    build.reader.control.store_outcome(me, {**error.to_json(), "at": at})
    return me


def test_only_what_no_build_needs_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = JsonBuild(tmp_path)
    build.finished()
    control = build.reader.control
    control.store_part("one", {"1": 2})
    control.store_digest(build.state().plan.build, {"p": 1}, [1])
    folder = Path(f"{build.location}.backfill")
    (folder / "memory" / "b").mkdir(parents=True)
    (folder / "memory" / "b" / "file").write_text("x")
    old, new = failed(build, 5), failed(build, status(build.location)["seen"])
    before = {file for file in folder.rglob("*") if file.is_file()}
    assert main(["clean", build.location, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check("clean", found)
    assert (found["proof_parts"], found["errors"]) == (1, 1)
    gone = before - {file for file in folder.rglob("*") if file.is_file()}
    assert gone == {folder / "proofs" / "one.json"}
    kept, forgotten = control.outcome(new), control.outcome(old)
    assert kept is not None and kept["data"] == {"sample": [{"name": "secret"}]}
    assert forgotten is not None and (forgotten["code"], forgotten["message"]) == ("KEY_NULL", FORGOTTEN)
    assert "secret" not in json.dumps(forgotten) and build.state().phase.value == "finished"
    again = clean(build.location, 30)
    assert (again["proof_parts"], again["errors"]) == (0, 0)


def test_a_build_that_is_verified_is_left_alone(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    for task in (READ, CONSUME, CATCH_UP):
        build.run(task)
    build.reader.control.store_part("one", {"1": 2})
    with pytest.raises(NotAllowedNow):
        clean(build.location, 30)
    assert build.reader.control.part("one") == {"1": 2}
    with pytest.raises(InvalidSpec, match="--days"):
        clean(build.location, 0)


def test_old_explanations_are_removed_and_damaged_ones_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    control = build.reader.control
    for generation, now in ((5, 1), (6, status(build.location)["seen"])):
        monkeypatch.setattr(control_folder, "now_ms", lambda now=now: now)
        control.store_explanation(Attempt(generation, "a"), {"key": {"id": "1"}})
    (tmp_path / "target.backfill/explanations/000000007.json").write_text("{")
    assert clean(build.location, 1)["explanations"] == 2
    assert control.explanation(5) is None and control.explanation(6) == {"key": {"id": "1"}}
