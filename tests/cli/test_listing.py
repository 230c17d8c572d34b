"""All builds below a folder, over real logs on a file system and in a bucket."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path

import pytest

from airflow_backfill.builds.folder import AT_ONCE, read_all
from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import SourceUnavailable
from tests.core.tasks import READ
from tests.ledger.json_target import JsonBuild

Captured = pytest.CaptureFixture[str]


def listed(folder: Path, capsys: Captured, status: int = 0) -> list[dict]:
    assert main(["list", str(folder), "--json"]) == status
    return json.loads(capsys.readouterr().out)["builds"]


def test_every_build_below_a_folder_has_a_line(tmp_path: Path, capsys: Captured) -> None:
    for name in ("b", "a", "deep/er"):
        JsonBuild(tmp_path / name, name=name.replace("/", "-")).plan()
    JsonBuild(tmp_path / "too/deep/to/be/found").plan()
    finished = JsonBuild(tmp_path / "done", name="done")
    finished.finished()
    build = JsonBuild(tmp_path / "read", name="read")
    build.plan()
    build.run(READ)
    found = listed(tmp_path, capsys)
    assert [one["name"] for one in found] == ["a", "b", "deep-er", "done", "read"]
    assert found[0]["target"] == str(tmp_path / "a" / "target") and found[0]["percent"] == 0.0
    assert [one["state"] for one in found][3:] == ["finished", "snapshot"] and found[4]["percent"] == 80.0
    assert main(["list", str(tmp_path)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert len(text) == 6 and "the consume_log task" in text[-1] and text[-1].split()[1] == "waiting"


def test_a_build_that_cannot_be_read_is_shown_beside_the_others(tmp_path: Path, capsys: Captured) -> None:
    good, damaged, dropped = (JsonBuild(tmp_path / name, name=name) for name in ("good", "damaged", "dropped"))
    for build in (good, damaged, dropped):
        build.plan()
    shutil.rmtree(dropped.location)
    dropped.reader.draw_attempt({"task": "cancel"})
    assert [one["state"] for one in listed(tmp_path, capsys, status=0)][1] == "not planned"
    damaged.foreign("RESTORE")
    found = {one["target"]: one for one in listed(tmp_path, capsys, status=1)}
    assert found[damaged.location]["state"] == "unreadable"
    assert found[damaged.location]["error"]["code"] == "TARGET_DIVERGED"
    assert found[good.location]["state"] == "snapshot"


def test_a_folder_without_builds_is_no_error(tmp_path: Path, capsys: Captured) -> None:
    assert listed(tmp_path, capsys) == [] and listed(tmp_path / "missing", capsys) == []


def test_a_store_that_does_not_answer_holds_nobody_up() -> None:
    asked = threading.Event()

    def read(target: str) -> dict:
        if target == "silent":
            asked.wait()
        raise SourceUnavailable("down")

    targets = [*(f"t{number}" for number in range(AT_ONCE)), "silent", *(f"u{number}" for number in range(40))]
    began = time.monotonic()
    found = read_all(targets, read, patience=0.2)
    asked.set()
    assert [target for target, _ in found] == targets and time.monotonic() - began < 60
    said = [str(answer) for _, answer in found]
    assert "has not answered" in said[AT_ONCE] and said[-1] == "[SOURCE_UNAVAILABLE] down"
