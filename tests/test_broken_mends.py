"""What was mended is broken again on purpose: the tests that are named for it have to notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broken import noticed
from tests.broken_mends import MENDS
from tests.mends.mend import Mend

PATIENCE = 600
"""Seconds that one test has, with a start of Spark and of a broker."""


def _long(mend: Mend) -> bool:
    """Whether Spark or Airflow begins for each of its tests, and a broker for some."""
    return any(test.startswith(("tests/spark/", "tests/plugin/")) for test in mend.tests)


@pytest.mark.parametrize(
    "edit",
    [pytest.param(mend, marks=pytest.mark.soak if _long(mend) else (), id=mend.name) for mend in MENDS],
)
def test_what_was_mended_is_missed_when_it_is_gone(edit: Mend) -> None:
    assert [test for test in edit.tests if not noticed(edit, [test], PATIENCE)] == []


@pytest.mark.soak
def test_where_nothing_is_broken_nothing_is_noticed() -> None:
    """Spark and a broker begin in such a process, too: it is not for that that tests fail in one."""
    edit = next(mend for mend in MENDS if _long(mend))
    sound = replace(edit, after=edit.before)
    tests = [test for mend in MENDS for test in mend.tests]
    assert not noticed(sound, list(dict.fromkeys(tests)), 3 * PATIENCE)
