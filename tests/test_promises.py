"""Every promise names tests, and every test that it names exists."""

from __future__ import annotations

import re

import pytest

from tests.named_tests import ROOT, missing

PAGE = (ROOT / "docs/promises.md").read_text()
PROMISED, _, _ = PAGE.partition("## What is not promised")
PROMISES = re.split(r"^\* ", PROMISED, flags=re.MULTILINE)[1:]
TEST = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text[:50])
def test_a_promise_is_held_by_tests_that_exist(promise: str) -> None:
    named = TEST.findall(promise)
    assert named
    assert missing(named) == []


def test_every_section_promises_something() -> None:
    assert len(PROMISES) > 15
    assert all("* " in section for section in PROMISED.split("\n## ")[1:])
