"""docs/behaviours has an entry for every behaviour, and lists only tests that exist and that would notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest

from tests.broken import Broken, noticed
from tests.broken_behaviours import BROKEN
from tests.named_tests import ROOT, missing

BEHAVIOURS = ROOT / "docs" / "behaviours"
NUMBERED = {"snapshot": 45, "source": 50, "chain": 25, "persisted_progress": 39, "arrangement": 45}
"""How many behaviours each page has, in the order of their numbers: S000, S001 and so on."""
ITEMS = [f"S{page:03}.{n}" for page, count in enumerate(NUMBERED.values()) for n in range(1, count + 1)]
STATUS = re.compile(r"(holds|holds\. Remark: .+|differs on purpose: .+|not applicable: .+)\.")


@dataclass(frozen=True)
class Entry:
    title: str
    rule: str
    here: str
    status: str
    tests: list[str]


@cache
def entries() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for page in NUMBERED:
        text = (BEHAVIOURS / f"{page}.md").read_text()
        for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
            if head := re.match(r"(S\d{3}\.\d+) (.+)\n", section):
                assert head[1] not in found, f"{head[1]} twice"
                found[head[1]] = entry(head[2], section[head.end() :])
    return found


def entry(title: str, text: str) -> Entry:
    rule, here, status, tests = (
        " ".join(part.split()) for part in re.split(r"^\*\*(?:Here|Status|Shown by):\*\*", text, flags=re.MULTILINE)
    )
    return Entry(title, rule, here, status, re.findall(r"`(tests/[^`]*::[^`]*)`", tests))


def test_every_item_has_an_entry_in_order() -> None:
    assert list(entries()) == ITEMS


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_is_shown_or_it_is_said_why_not(item: str) -> None:
    said = entries()[item]
    assert said.title and said.rule and said.here
    assert STATUS.fullmatch(said.status)
    assert said.tests or said.status.startswith("not applicable")
    assert missing(said.tests) == []


def quick(item: str) -> list[str]:
    """The tests of an item that run the core alone, in the order in which they are named."""
    return [test for test in entries()[item].tests if test.startswith("tests/core/") and "mutants" not in test]


@pytest.mark.soak
@pytest.mark.parametrize("edit", BROKEN, ids=lambda edit: edit.name)
def test_the_tests_of_an_item_notice_when_it_is_broken(edit: Broken) -> None:
    assert [item for item in edit.items if not noticed(edit, quick(item))] == []
