"""``explain`` and ``plan --explain``: what is submitted, and what is made of the answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.reports.explained import verdict
from tests.cli.schema import check
from tests.ledger.json_target import JsonBuild

Captured = pytest.CaptureFixture[str]
HERE = Path(__file__).parent

ROW = {"id": 42, "name": "x"}
EXPLAINED = {
    "target": "/t",
    "source": "/s",
    "build": "b",
    "strategy": "snapshot",
    "key": {"id": "42"},
    "snapshot": {"epoch": 5, "rows": [{"image": ROW, "made": ROW}], "error": None},
    "epochs": {"from": 6, "to": 9, "looked_at": 3, "read": 2, "missing": [7]},
    "changes": [
        {
            "epoch": 8,
            "at": 1_800_000_000_000,
            "operation": "MERGE",
            "change": "update_postimage",
            "image": ROW,
            "made": None,
            "applied_in": {"version": 3, "at": 1},
        }
    ],
    "truncated": False,
    "applied": 8,
    "target_version": 4,
    "holds": [],
    "should_hold": [ROW],
    "verdict": "differs",
    "why": "the target lacks the row",
}
CHECK = {"name": "the key is unique", "result": "pass", "detail": None, "error": None}
REFUSED = {"code": "KEY_DUPLICATE", "message": "2 keys", "retry": False, "data": {}}
PLANNED: dict[str, Any] = {"target": "/t", "checks": [CHECK], "report": {"existing": True}, "good": True}
SPEC = {"name": "orders", "source": "/data/orders", "target": "/data/target", "key": ["id"]}


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RECEIVED", str(tmp_path / "received.json"))
    script = tmp_path / "spark-submit"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "report_application.py"}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def reports(monkeypatch: pytest.MonkeyPatch, outcome: dict[str, Any]) -> None:
    monkeypatch.setenv("REPORT", json.dumps({"airflow_backfill_report": 1, **outcome}))


def test_an_explanation_is_shown_and_a_difference_ends_with_1(
    tmp_path: Path, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    attempts = len(build.reader.control.attempts())
    reports(monkeypatch, {"code": "OK", "result": EXPLAINED})
    argv = ["explain", build.location, "--key", "id=42", "--since", "6", "--redact", "--spark-submit", submit]
    assert main([*argv, "--json"]) == 1
    check("explain", json.loads(capsys.readouterr().out))
    assert main(argv) == 1
    text = capsys.readouterr().out
    for part in ("id=42 in /t", "1 epochs are no longer", "MERGE, update_postimage; applied in version 3", "no row"):
        assert part in text
    assert "'where' leaves it out" in text and "WARNING   the target lacks the row" in text
    given = json.loads((tmp_path / "received.json").read_text())
    entry = next(n for n, word in enumerate(given) if word.endswith("explain.py"))
    assert given[entry - 2 : entry] == ["--conf", "spark.table_backfill.redact=true"]
    assert given[entry + 1 :] == [
        "--target",
        build.location,
        "--build",
        build.state().plan.build,
        "--key",
        "id=42",
        "--since",
        "6",
    ]
    assert len(build.reader.control.attempts()) == attempts, "an attempt was drawn, although nothing is written"
    reports(monkeypatch, {"code": "OK", "result": {**EXPLAINED, "verdict": "equal"}})
    assert main(argv) == 0


def test_an_error_of_the_application_is_the_commands(
    tmp_path: Path, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    argv = ["explain", build.location, "--key", "id=x", "--json", "--spark-submit", submit]
    for report, code in (
        (json.dumps({"airflow_backfill_report": 1, **REFUSED}), "KEY_DUPLICATE"),
        ("{}", "APPLICATION_FAILED"),
    ):
        monkeypatch.setenv("REPORT", report)
        assert main(argv) == 1
        assert json.loads(capsys.readouterr().err.splitlines()[-1])["code"] == code, "logs may come before it"


def test_a_dry_run_shows_each_check_and_creates_nothing(
    tmp_path: Path, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = str(tmp_path / "lake" / "target")
    spec = json.dumps({**SPEC, "target": target})
    (tmp_path / "spec.json").write_text(spec)
    reports(monkeypatch, {"code": "OK", "result": PLANNED})
    for given in (spec, str(tmp_path / "spec.json")):
        assert main(["plan", given, "--explain", "--round-rows", "5", "--json", "--spark-submit", submit]) == 0
        check("plan", json.loads(capsys.readouterr().out))
    received = json.loads((tmp_path / "received.json").read_text())
    entry = next(n for n, word in enumerate(received) if word.endswith("plan.py"))
    assert received[entry + 1 : entry + 3] == ["--target", target] and "--explain" in received
    assert received[received.index("--round-rows") + 1] == "5"
    assert not (tmp_path / "lake").exists()
    failed = {**PLANNED, "checks": [{**CHECK, "result": "fail", "error": REFUSED}], "report": None, "good": False}
    reports(monkeypatch, {"code": "OK", "result": failed})
    assert main(["plan", spec, "--explain", "--spark-submit", submit]) == 1
    text = capsys.readouterr().out
    assert "cannot be planned" in text and "fail        the key is unique" in text and "[KEY_DUPLICATE] Delete" in text


def test_a_file_with_a_spec_is_utf_8_with_or_without_its_mark(
    tmp_path: Path, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports(monkeypatch, {"code": "OK", "result": PLANNED})
    spec = {**SPEC, "target": str(tmp_path / "target"), "where": "city = 'Zürich'"}
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "spec.json").write_text(json.dumps(spec, ensure_ascii=False), encoding)
        assert main(["plan", str(tmp_path / "spec.json"), "--explain", "--json", "--spark-submit", submit]) == 0
        received = json.loads((tmp_path / "received.json").read_text())
        assert json.loads(received[received.index("--spec") + 1]) == spec
        capsys.readouterr()


def test_what_spark_says_in_another_encoding_hides_no_answer(
    tmp_path: Path, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(submit).write_text(Path(submit).read_text().replace("exec", r"printf '\374ber\n' >&2; exec"))
    reports(monkeypatch, {"code": "OK", "result": PLANNED})
    spec = json.dumps({**SPEC, "target": str(tmp_path / "target")})
    assert main(["plan", spec, "--explain", "--json", "--spark-submit", submit]) == 0
    check("plan", json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("spec", ["{", "{}", '{"name": "a"}', "/no/such/file", "x" * 5000])
def test_a_spec_that_is_none_is_refused_without_spark(spec: str, capsys: Captured) -> None:
    assert main(["plan", spec, "--explain", "--json", "--spark-submit", "/nonexistent"]) == 1
    assert json.loads(capsys.readouterr().err)["code"] == "SPEC_INVALID"


def test_a_round_without_rows_is_refused_without_spark(tmp_path: Path, capsys: Captured) -> None:
    spec = json.dumps({**SPEC, "target": str(tmp_path / "target")})
    assert main(["plan", spec, "--explain", "--round-rows", "0", "--json", "--spark-submit", "/nonexistent"]) == 1
    error = json.loads(capsys.readouterr().err)
    assert error["code"] == "SPEC_INVALID" and error["message"].startswith("round_rows")


def test_the_verdict_says_what_differs() -> None:
    assert verdict([ROW], [ROW], None, 5, 5) == ("equal", "the target holds what the source says at epoch 5")
    assert "epoch 7 changes the row and is still pending" in verdict([ROW], [ROW], None, 5, 7)[1]
    assert verdict([], None, "not yet", None, -1) == ("unknown", "not yet")
    for holds, should, says in (
        ([], [ROW], "lacks the row"),
        ([ROW], [], "does not have"),
        ([ROW, ROW], [ROW], "2 rows"),
        ([{**ROW, "name": "y"}], [ROW], "differs in name"),
    ):
        assert says in verdict(holds, should, None, 5, 5)[1]


def test_keys_that_differ_are_named(
    tmp_path: Path, submit: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    sample = [{"kind": "extra", "key": {"id": "42"}}]
    reports(monkeypatch, VerificationFailed("1 key differs", counts={"extra": 1}, sample=sample).to_json())
    assert main(["explain", build.location, "--key", "id=42", "--spark-submit", submit]) == 1
    error, key, way_out = capsys.readouterr().err.splitlines()[-3:]
    assert "1 key differs" in error and key == "  id=42: only in the target" and "repair" in way_out
