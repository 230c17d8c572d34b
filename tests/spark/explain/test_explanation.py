"""Why a row is as it is, for builds on real tables."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.reports.explained import as_text
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.explain.explanation import Explanation
from airflow_backfill.spark.run.application import main
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.session.redaction import REDACT
from tests.cli.schema import check
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def explained(build: Build, key: str, since: int | None = None, state: BuildState | None = None) -> dict[str, Any]:
    shell = Shell(build.spark, build.target)
    found = Explanation(build.spark, shell.reader, state or shell.run(load())).of([key], since)
    check("explain", json.loads(json.dumps(found)))
    assert as_text(found)
    return found


@pytest.fixture(scope="module")
def build(made: Source, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A build at epoch 5 of its source, with epoch 6 pending."""
    folder = tmp_path_factory.mktemp("explained")
    source = replace(made, path=str(shutil.copytree(made.path, folder / "source")))
    build = Build(source, folder / "target", select=["id", "upper(name) AS name"], where="n is null or n < 1000")
    build.read()
    source.sql("UPDATE $table SET $name = 'secret' WHERE $id = 42")
    source.sql("UPDATE $table SET $n = 5000 WHERE $id = 43")
    source.sql("DELETE FROM $table WHERE $id = 44")
    source.append(7000, 7010)
    build.consume_log()
    source.sql("UPDATE $table SET $name = 'later' WHERE $id = 42")
    return build


def test_each_change_has_its_image_and_the_commit_that_applied_it(build: Build) -> None:
    found = explained(build, "id=42")
    assert found["verdict"] == "equal" and "epoch 6 changes the row and is still pending" in found["why"]
    (snapshot,) = found["snapshot"]["rows"]
    assert snapshot["image"]["name"] == "made42" and snapshot["made"] == {"id": 42, "name": "MADE42"}
    changes = [(one["epoch"], one["change"], one["image"]["name"], one["made"]["name"]) for one in found["changes"]]
    assert changes == [
        (2, "update_preimage", "made42", "MADE42"),
        (2, "update_postimage", "secret", "SECRET"),
        (6, "update_preimage", "secret", "SECRET"),
        (6, "update_postimage", "later", "LATER"),
    ]
    version = found["changes"][0]["applied_in"]["version"]
    assert build.reader.log.read(version).operation == "MERGE" and found["changes"][3]["applied_in"] is None
    assert found["holds"] == found["should_hold"] == [{"id": 42, "name": "SECRET"}]
    assert (found["epochs"]["looked_at"] == 5 and found["epochs"]["read"] == 2) or found["epochs"]["read"] < 5


@pytest.mark.soak
def test_rows_that_left_the_filter_or_the_source(build: Build) -> None:
    found = explained(build, "id=43")
    assert (found["verdict"], found["holds"], found["changes"][-1]["made"]) == ("equal", [], None)
    assert "'where' leaves it out" in as_text(found)
    found = explained(build, "id=44")
    assert (found["changes"][-1]["change"], found["holds"], found["verdict"]) == ("delete", [], "equal")
    found = explained(build, "id=7003")
    assert found["snapshot"]["rows"] == [] and found["changes"][0]["change"] == "insert"
    found = explained(build, "id=123456")
    assert (found["changes"], found["holds"], found["verdict"]) == ([], [], "equal")
    with pytest.raises(InvalidSpec, match="--since"):
        explained(build, "id=42", since=99)


def test_redaction_hides_all_values_but_the_key(build: Build, spark: SparkSession) -> None:
    spark.conf.set(REDACT, "true")
    try:
        found = explained(build, "id=42")
    finally:
        spark.conf.unset(REDACT)
    assert found["verdict"] == "equal" and found["holds"] == [{"id": 42, "name": "***"}]
    assert "secret" not in json.dumps(found).lower() and "made42" not in json.dumps(found).lower()
    assert found["changes"][0]["image"]["id"] == 42 and found["changes"][0]["image"]["n"] == "***"


def test_one_that_an_attempt_asks_for_lies_beside_the_target_and_nowhere_else(
    build: Build, capfd: pytest.CaptureFixture[str]
) -> None:
    """Values are hidden if an application of the build has hidden them, whatever this one is given."""
    reader = BuildReader(build.target)
    for hides in ("false", "true"):
        before = reader.draw_attempt({"task": "snapshot"})
        reader.control.announce(before, {"conf": {REDACT: hides}})
        me = reader.draw_attempt({"task": "explain"})
        line = ["--target", build.target, "--generation", str(me.generation), "--attempt", me.name, "--key=id=42"]
        assert main("explain", line) == 0
        outcome, found = reader.control.outcome(me), reader.control.explanation(me.generation)
        assert outcome is not None and found is not None
        check("explain", found)
        assert outcome["result"]["verdict"] == "equal" and outcome["result"]["explanation"] == me.generation
        assert ("SECRET" in json.dumps(found)) is (hides == "false")
        assert "SECRET" not in json.dumps(outcome)
    said = capfd.readouterr()
    assert "SECRET" not in said.out + said.err
    build.spark.conf.unset(REDACT)


def test_without_a_complete_snapshot_nothing_is_concluded(build: Build, tmp_path: Path) -> None:
    other = Build(build.source, tmp_path / "target")
    other.plan()
    found = explained(other, "id=42", since=6)
    assert (found["verdict"], found["should_hold"], found["holds"]) == ("unknown", None, [])
    assert [one["epoch"] for one in found["changes"]] == [6, 6]


@pytest.mark.soak
def test_a_target_that_another_writer_changed_differs(build: Build) -> None:
    state = build.reader.state()
    table = f"delta.`{build.target}`"
    build.spark.sql(f"UPDATE {table} SET name = 'FORGED' WHERE id = 42")
    build.spark.sql(f"DELETE FROM {table} WHERE id = 41")
    state = replace(state, proven=build.reader.log.head())
    forged = explained(build, "id=42", state=state)
    assert forged["verdict"] == "differs" and "differs in name" in forged["why"]
    assert (forged["holds"][0]["name"], forged["should_hold"][0]["name"]) == ("FORGED", "SECRET")
    assert "lacks the row" in explained(build, "id=41", state=state)["why"]
