from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_backfill.core import errors
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.way_out import WAYS_OUT, way_out

PACKAGE = Path(errors.__file__).parents[1]
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, BackfillError) and kind is not BackfillError
]
WORTH_A_RETRY = {
    "INTERRUPTED",
    "EXECUTOR_LOST",
    "NO_SPACE",
    "TARGET_CONTENDED",
    "TARGET_BUSY",
    "SOURCE_UNAVAILABLE",
    "CREDENTIALS_EXPIRED",
    "APPLICATION_FAILED",
    "LANDING_AHEAD",
}


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code) for code in codes)


def test_only_what_another_try_can_change_is_worth_a_retry() -> None:
    assert {kind.code for kind in KINDS if kind.retry} == WORTH_A_RETRY


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_an_error_says_what_it_is_in_words_and_in_json(kind: type[BackfillError]) -> None:
    error = kind("epoch 8 is gone", epoch=8)
    assert str(error) == f"[{kind.code}] epoch 8 is gone"
    assert json.loads(json.dumps(error.to_json())) == {
        "code": kind.code,
        "message": "epoch 8 is gone",
        "retry": kind.retry,
        "data": {"epoch": 8},
    }
    assert kind.__doc__


def test_every_code_has_a_way_out() -> None:
    assert {kind.code for kind in KINDS} - WAYS_OUT.keys() == set()
    for kind in KINDS:
        assert WAYS_OUT[kind.code].endswith(".") and "is retried" not in WAYS_OUT[kind.code]
    assert way_out("of a newer version") not in WAYS_OUT.values()


@pytest.mark.parametrize(
    ("retry", "last_try", "says"),
    [(False, True, ""), (True, False, "Airflow tries again. "), (True, True, "No retry is left: remove")],
)
def test_a_way_out_says_whether_airflow_tries_again(retry: bool, last_try: bool, says: str) -> None:
    said = way_out("TARGET_BUSY", retry=retry, last_try=last_try)
    assert said.startswith(says) and said.endswith(WAYS_OUT["TARGET_BUSY"])
    assert (said == WAYS_OUT["TARGET_BUSY"]) is not retry


def test_no_message_says_that_it_is_retried() -> None:
    """Only the task knows: see ``way_out``."""
    said = re.compile(r"[;,] (and )?(the task|this) is retried")
    assert [file.name for file in PACKAGE.rglob("*.py") if said.search(file.read_text())] == []


def test_no_way_out_through_a_recovery_clears_verify_alone() -> None:
    """Airflow starts no task whose predecessor has failed, and an error that needs a recovery may end any task."""
    ways = [text for text in WAYS_OUT.values() if "--epoch N" in text]
    assert len(ways) > 10
    for text in ways:
        assert "clear the failed task and the tasks after it" in text and "clear the verify task" not in text, text
