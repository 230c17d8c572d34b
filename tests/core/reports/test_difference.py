from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.errors import KeyNull, VerificationFailed
from airflow_backfill.core.reports.attempt_status import AttemptStatus, Life
from airflow_backfill.core.reports.difference import SHOWN, difference, keys_of, settles
from tests.core.reports.test_due import CERTIFICATE

KEY = ("shop", "id")


def named(count: int) -> list[dict[str, Any]]:
    return [{"kind": "stale", "key": {"shop": "a", "order_id": str(n)}} for n in range(count)]


def failed(**data: Any) -> AttemptStatus:
    found = {"epoch": 7, "target_version": 20, "counts": {"missing": 2, "stale": 1}, "sample": named(1), **data}
    return AttemptStatus(
        4, "a4", "verify", Life.ENDED, ended=900, outcome="VERIFICATION_FAILED", message="m", data=found
    )


def test_a_failed_proof_tells_how_many_keys_differ_and_what_to_explain() -> None:
    assert difference(failed(), None, KEY) == {
        **{"generation": 4, "at": 900, "epoch": 7, "message": "m", "counts": {"missing": 2, "stale": 1}},
        "keys": [{"kind": "stale", "key": {"shop": "a", "order_id": "0"}, "explain": ["shop=a", "id=0"]}],
    }


@pytest.mark.parametrize("values", [{"shop": "a", "id": "***"}, {"shop": "a", "id": None}, {"digest": "00ff"}])
def test_what_has_no_known_key_cannot_be_explained(values: dict[str, Any]) -> None:
    found = difference(failed(sample=[{"kind": "extra", "key": values}]), None, KEY)
    assert found is not None and found["keys"] == [{"kind": "extra", "key": values, "explain": None}]


@pytest.mark.parametrize("data", [{}, {"counts": 3, "sample": {}}, {"sample": [1, {"kind": "x"}, {"kind": "stale"}]}])
def test_an_outcome_that_was_emptied_or_damaged_names_no_key(data: dict[str, Any]) -> None:
    found = difference(replace(failed(), data=data), None, KEY)
    assert found is not None and (found["counts"], found["keys"], found["message"]) == ({}, [], "m")


def test_only_a_later_proof_or_repair_takes_it_back() -> None:
    newer, same = (replace(CERTIFICATE, target_version=version) for version in (21, 20))
    assert difference(failed(), newer, KEY) is None and difference(failed(), same, KEY) is not None
    assert difference(failed(target_version=None), same, KEY) is None
    for task, settled in (("verify", True), ("prove", True), ("repair", True), ("explain", False), ("snapshot", False)):
        done = replace(failed(), task=task, outcome="OK")
        assert settles(done) == settled and difference(done, None, KEY) is None
    assert settles(failed()) and not settles(replace(failed(), outcome=None))


def test_an_error_names_the_first_keys_and_how_many_more_are_known() -> None:
    lines = keys_of(VerificationFailed("differs", counts={"stale": SHOWN + 2}, sample=named(SHOWN + 2)))
    assert lines[0] == "  shop=a, order_id=0: with other values" and len(lines) == SHOWN + 1
    assert lines[-1] == "  and 2 more in the answer to --json"
    assert keys_of(KeyNull("no key", sample=[{"name": "secret"}])) == []
