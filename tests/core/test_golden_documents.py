"""Documents of older versions mean to this one what they meant to the version that wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_backfill.core.model import announcement, record
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.values.control import Command
from tests.golden import format_1
from tests.golden.archive import DOCUMENTS

FORMAT_1 = DOCUMENTS / "format_1"


def document(name: str) -> Any:
    return json.loads((FORMAT_1 / f"{name}.json").read_text())


def named(start: str) -> set[str]:
    return {file.stem for file in FORMAT_1.glob(f"{start}_*.json")}


@pytest.mark.parametrize("name", format_1.RECORDS)
def test_a_record_is_read_as_it_was_meant(name: str) -> None:
    assert record.decode(json.dumps(document(name))) == format_1.RECORDS[name]


@pytest.mark.parametrize("name", format_1.ANNOUNCEMENTS)
def test_an_announcement_is_read_as_it_was_meant(name: str) -> None:
    assert announcement.decode(json.dumps(document(name))) == format_1.ANNOUNCEMENTS[name]


@pytest.mark.parametrize("name", format_1.PLANS)
def test_a_plan_is_read_as_it_was_meant(name: str) -> None:
    written, wanted = document(name), format_1.PLANS[name]
    plan = Plan.from_json(written)
    for field in ("build", "spec", "target_id", "target_version", "splits", "lanes", "made"):
        assert getattr(plan, field) == wanted[field], field
    source = plan.source
    assert (source.table_id, source.epoch, source.feed, source.digest, source.columns) == wanted["source"]
    assert source.partition_columns == ()
    assert source.schema_json == written["source"]["schema"]
    assert plan.target_schema_json == written["target"]["schema"]
    assert plan.settings == written["settings"] and plan.settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("name", format_1.PLANS)
def test_a_plan_keeps_the_fingerprint_that_records_name(name: str) -> None:
    plan = Plan.from_json(document(name))
    assert plan.fingerprint == format_1.PLANS[name]["fingerprint"]
    assert Plan.from_json(json.loads(plan.encode())).fingerprint == plan.fingerprint


@pytest.mark.parametrize("name", format_1.COMMANDS)
def test_a_command_is_read_as_it_was_meant(name: str) -> None:
    written = document(name)
    assert len(written.pop("build")) == 32
    assert Command.from_json(written) == format_1.COMMANDS[name]


def test_every_document_is_tested() -> None:
    tested = {*format_1.RECORDS, *format_1.ANNOUNCEMENTS, *format_1.PLANS, *format_1.COMMANDS}
    assert tested == named("record") | named("announcement") | named("plan") | named("command")
