"""A plan that creates nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.spark.run.dry_run import COLUMNS, KEEPS_UP, STRATEGY, TARGET, DryRun
from airflow_backfill.spark.run.planner import Planner
from airflow_backfill.spark.session.redaction import REDACT
from tests.cli.schema import check
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


def explained(table: Source, target: Path, **spec: Any) -> dict[str, Any]:
    given = {"name": "build", "source": table.path, "target": str(target), "key": ["id"], **spec}
    found = DryRun(table.spark, BackfillSpec.parse(given), 1, Attempt(0, "")).explain()
    check("plan", json.loads(json.dumps(found)))
    return found


@pytest.mark.slow
def test_every_precondition_is_met_and_nothing_is_created(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    source.append(1000, 1010)
    before = sorted(tmp_path.rglob("*"))
    found = explained(source, tmp_path / "lake" / "target", strategy="auto")
    assert sorted(tmp_path.rglob("*")) == before
    assert found["good"] and len(found["checks"]) == 13
    rehearsal = found["report"]["rehearsal"]
    assert rehearsal["measured"] and rehearsal["converges"] and rehearsal["replayed_epochs"] >= 1
    assert found["report"]["rows"] == 250 and found["report"]["strategy"] == "snapshot"
    target = tmp_path / "lake" / "made"
    source.spark.sql(f"CREATE TABLE delta.`{target}` (id STRING) USING delta TBLPROPERTIES ('{OWNER}' = 'build')")
    unfit = explained(source, target)
    assert {one["name"]: one["error"]["code"] for one in unfit["checks"] if one["error"]} == {COLUMNS: "TARGET_REFUSES"}
    Build(source, tmp_path / "lake" / "target").plan()
    again = explained(source, tmp_path / "lake" / "target")
    assert again["good"] and again["report"]["existing"]
    other = explained(source, tmp_path / "lake" / "target", where="id > 3")
    failed = {one["name"]: one["error"]["code"] for one in other["checks"] if one["result"] == "fail"}
    assert failed == {TARGET: "SPEC_CHANGED"} and not other["good"]


@pytest.mark.soak
def test_the_plan_of_a_build_that_takes_hours_measures_too(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Planner, "measured_from", 0.0)
    build = Build(source, tmp_path / "target")
    build.plan()
    assert build.report["rehearsal"]["measured"]


@pytest.mark.parametrize(
    ("spec", "code", "unchecked"),
    [
        ({"where": "rand() > 1"}, "EXPRESSION_INVALID", 6),
        ({"select": ["name"]}, "KEY_INVALID", 5),
        ({"key": ["part"]}, "KEY_DUPLICATE", 4),
        ({"source": "/no/such/table"}, "SOURCE_NOT_DELTA", 7),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_precondition_that_fails_is_named(
    spec: dict[str, Any], code: str, unchecked: int, source: Source, tmp_path: Path
) -> None:
    source.spark.conf.set(REDACT, "true")
    try:
        found = explained(source, tmp_path / "target", **spec)
    finally:
        source.spark.conf.unset(REDACT)
    failed = [one for one in found["checks"] if one["result"] == "fail"]
    assert [one["error"]["code"] for one in failed] == [code] and found["report"] is None and not found["good"]
    names = [one["name"] for one in found["checks"] if one["result"] == "not checked"]
    assert len(names) == unchecked and {STRATEGY, KEEPS_UP} <= set(names)
    if code == "KEY_DUPLICATE":
        assert failed[0]["error"]["data"]["sample"][0] == {"part": "***"}, "a value is shown"
