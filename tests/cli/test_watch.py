from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_backfill.builds.status import status
from airflow_backfill.cli import watch as watching
from airflow_backfill.cli.main import main
from airflow_backfill.cli.terminal import bar, coloured
from airflow_backfill.core.errors import InvalidSpec, NotPlanned, SourceUnavailable
from tests.core.tasks import CATCH_UP, CONSUME, FINISH, READ, VERIFY
from tests.ledger.json_target import JsonBuild


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict]:
    """A build of which each look sees one task more; between two looks nothing sleeps."""
    build = JsonBuild(tmp_path)
    build.plan()
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: None)

    def looking() -> Iterator[dict]:
        yield status(build.location)
        yield status(build.location)
        for task in (READ, CONSUME, CATCH_UP, VERIFY, FINISH):
            build.run(task)
            yield status(build.location)

    return looking()


def test_elsewhere_than_on_a_terminal_each_change_is_a_plain_line(looks: Iterator[dict]) -> None:
    out = io.StringIO()
    watching.watch(lambda: next(looks), 1, out, as_json=False)
    lines = out.getvalue().splitlines()
    assert len(lines) == 6 and "orders: snapshot, 0.0 %" in lines[0] and "orders: finished, 100.0 %" in lines[-1]
    assert "\x1b" not in out.getvalue()


def test_with_json_each_change_is_a_document(looks: Iterator[dict]) -> None:
    out = Terminal()
    watching.watch(lambda: next(looks), 1, out, as_json=True)
    phases = [json.loads(line)["phase"] for line in out.getvalue().splitlines()]
    assert phases[0] == "snapshot" and phases[-1] == "finished" and len(phases) == 6


def test_on_a_terminal_it_is_redrawn(looks: Iterator[dict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    watching.watch(lambda: next(looks), 1, out, as_json=False)
    frames = out.getvalue().split("\x1b[0J")
    assert len(frames) == 7 and bar(100.0) in frames[-1]
    for before, after in pairwise(frames):
        up = int(before.rpartition("\x1b[")[2].rstrip("A\r"))
        assert up == before.rpartition("\x1b[")[0].count("\n") and after


def test_a_terminal_with_few_rows_does_not_scroll(looks: Iterator[dict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "5")
    out = Terminal()
    watching.watch(lambda: next(looks), 1, out, as_json=False)
    assert {frame.count("\n") for frame in out.getvalue().split("\x1b[0J")} == {4}


def test_an_error_that_may_pass_is_shown_and_another_one_ends_it(looks: Iterator[dict]) -> None:
    first, ends = next(looks), next(looks)
    ends["phase"] = "cancelled"
    answers = iter([first, SourceUnavailable("down"), ends])

    def look() -> dict:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    out = io.StringIO()
    watching.watch(look, 1, out, as_json=False)
    assert "[SOURCE_UNAVAILABLE] down" in out.getvalue().splitlines()[1]
    answers = iter([NotPlanned("none")])
    with pytest.raises(NotPlanned):
        watching.watch(look, 1, out, as_json=False)


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
def test_a_senseless_interval_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidSpec, match="--watch"):
        watching.watch(dict, seconds, io.StringIO(), as_json=False)


def test_a_finished_build_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = JsonBuild(tmp_path)
    build.finished()
    assert main(["status", build.location, "--watch"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "orders: snapshot, 1 %\n  WARNING   soon\n  rows      1"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured(text, io.StringIO()) == text
    shown = coloured(text, Terminal())
    assert shown.count("\x1b[0m") == 2 and "\x1b[31m  WARNING" in shown and shown.endswith("\n  rows      1")
    for line in ("  health    waiting", "snapshot  waiting"):  # of a status, of a list
        assert coloured(f"x\n{line}: an operator", Terminal()).endswith(f"\x1b[33m{line}: an operator\x1b[0m")
        assert coloured(f"x\n{line} (needs attention): why", Terminal()).endswith(
            f"\x1b[31m{line} (needs attention): why\x1b[0m"
        )
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
        assert coloured(text, Terminal()) == text
        monkeypatch.delenv(name)
