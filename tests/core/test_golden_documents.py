"""Documents of older versions mean to this one what they meant to the version that wrote them.

``documents/format_1`` is what commit bb07261 wrote. ``documents/format_2`` says the same in format 2, which names every
field: it was made from what each document meant to that commit's own decoders.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_backfill.core.model import announcement, record
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.values.control import Command
from tests.golden.archive import DOCUMENTS
from tests.golden.make import in_log

# The records of a build name its plan by this.
FINGERPRINTS = {
    "plan_arrangement": "c1714bcbe8318cd0073e4b3c5343e5b1",
    "plan_chain": "5350a872ed2bed2daba22c944ecfeadd",
    "plan_snapshot": "3801c0e0f1bc36b8689ea4c4d53df567",
    "plan_source": "366df11892f69c4de1e53fd24763e470",
}


def document(name: str, format_: int = 1) -> Any:
    return json.loads((DOCUMENTS / f"format_{format_}" / f"{name}.json").read_text())


def named(start: str) -> list[str]:
    return sorted(file.stem for file in (DOCUMENTS / "format_1").glob(f"{start}_*.json"))


@pytest.mark.parametrize("format_", [1, 2])
@pytest.mark.parametrize("name", named("record"))
def test_a_record_is_read_as_it_was_meant(name: str, format_: int) -> None:
    read = record.decode(json.dumps(document(name, format_)))
    assert json.loads(read.encode()) == document(name, format_=2)


@pytest.mark.parametrize("name", [*named("record"), *named("announcement")])
def test_documents_of_the_newest_format_can_be_kept_for_later_versions(name: str) -> None:
    kept = document(name, format_=2)
    assert in_log(kept) == (name, kept)


@pytest.mark.parametrize("format_", [1, 2])
@pytest.mark.parametrize("name", named("announcement"))
def test_an_announcement_is_read_as_it_was_meant(name: str, format_: int) -> None:
    read = announcement.decode(json.dumps(document(name, format_)))
    assert json.loads(read.encode()) == document(name, format_=2)


@pytest.mark.parametrize("name", named("plan"))
def test_a_plan_says_what_it_said_and_keeps_the_fingerprint_that_records_name(name: str) -> None:
    plan = Plan.from_json(document(name))
    assert json.loads(plan.encode()) == document(name) and plan.fingerprint == FINGERPRINTS[name]


@pytest.mark.parametrize("name", named("command"))
def test_a_command_says_what_it_said(name: str) -> None:
    written = document(name)
    assert len(written.pop("build")) == 32 and Command.from_json(written).to_json() == written


def test_there_are_documents_of_each_kind() -> None:
    assert [len(named(kind)) for kind in ("record", "announcement", "plan", "command")] == [15, 3, 4, 4]
