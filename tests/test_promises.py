"""Every promise names tests, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/promises.md").read_text()
PROMISED, _, _ = PAGE.partition("## What is not promised")
PROMISES = re.split(r"^\* ", PROMISED, flags=re.MULTILINE)[1:]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text[:50])
def test_a_promise_is_held_by_tests_that_exist(promise: str) -> None:
    named = TEST.findall(promise)
    assert named
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"


def test_every_section_promises_something() -> None:
    assert len(PROMISES) > 15
    assert all("* " in section for section in PROMISED.split("\n## ")[1:])
