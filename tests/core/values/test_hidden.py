"""Which errors show values of rows, as the package raises them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from airflow_backfill.core import errors
from airflow_backfill.core.errors import VerificationFailed, kinds
from airflow_backfill.core.values.hidden import SAMPLE, TELLING, UNSEEN, without_values
from airflow_backfill.spark.session import failure
from tests.test_walls import PACKAGE

OUTCOME = {"code": "KEY_NULL", "message": "a row of smith", "data": {"count": 1, "sample": [{"id": "smith"}]}}


def raised_with_a_sample() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and any(named.arg == SAMPLE for named in call.keywords):
                name = call.func.id if isinstance(call.func, ast.Name) else ""
                if issubclass(getattr(errors, name, int), errors.BackfillError):
                    yield name


def test_each_error_that_takes_values_of_rows_is_known_for_it() -> None:
    found = {getattr(errors, name).code for name in raised_with_a_sample()}
    assert found == {"KEY_NULL", "KEY_DUPLICATE", "UNDECODABLE", "ORDER_UNKNOWN", VerificationFailed.code}
    assert found - {VerificationFailed.code} < TELLING, "its message has counts only"


def test_each_error_that_says_what_spark_says_is_known_for_it() -> None:
    of_spark = {kind.code for kind, _, _ in failure._FATAL} | {"APPLICATION_FAILED"}
    assert of_spark - {"SPARK_INCOMPLETE"} < TELLING
    assert TELLING < {kind.code for kind in kinds()}


def test_what_may_show_values_is_hidden_and_counts_stay() -> None:
    assert without_values(OUTCOME) == {"code": "KEY_NULL", "message": UNSEEN, "data": {"count": 1}}
    assert without_values({**OUTCOME, "code": "NEWER"})["message"] == UNSEEN
    assert without_values({**OUTCOME, "code": "HISTORY_LOST"})["message"] == "a row of smith"
    assert without_values({"code": "OK", "result": {"rows": 1}}) == {"code": "OK", "result": {"rows": 1}}
