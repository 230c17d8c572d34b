from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import pytest

from airflow_backfill.builds.cleaning import clean
from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.look import ATTEMPTS
from airflow_backfill.builds.status import as_text, status
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.errors import Fenced, KeyNull, NotPlanned, VerificationFailed
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling
from airflow_backfill.core.reports.summary import partition
from airflow_backfill.core.reports.way_out import WAYS_OUT
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.open_source import glance_at_source, watch_source
from airflow_backfill.ledger.reader import BuildReader
from tests.cli.schema import check
from tests.core.model_target import COST, NO_LAG, PATIENCE
from tests.core.tasks import CATCH_UP, CONSUME, READ
from tests.ledger.json_target import JsonBuild

REPO = Path(__file__).parents[2]


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path, [FileSize(1_000, 50)] * 40)
    build.write_ms = 2_000
    return build


def shown(build: JsonBuild) -> tuple[dict[str, Any], str]:
    found = status(build.location)
    assert json.loads(json.dumps(found)) == found
    text = as_text(found)
    assert len(text.splitlines()) < 25
    return found, text


def test_a_running_snapshot_shows_speed_and_time_left(build: JsonBuild) -> None:
    build.plan()
    build.start(SnapshotGoal(0, 1, RoundSize(1, 10**6))).until(CommitRecord, nth=12)
    found, text = shown(build)
    assert (found["phase_percent"], found["rows_per_second"], found["seconds_left"]) == (25.0, 25.0, 60)
    assert text.startswith("orders: snapshot 25.0 %, in all 20.0 % (25 rows/s, 1 min 0 s left)\n")
    assert "files     10 of 40" in text and "before the snapshot's epoch" in text


@pytest.mark.parametrize(("stands", "verb"), [("paused", Verb.PAUSE), ("waiting", Verb.CANCEL), ("stuck", None)])
def test_a_build_that_stands_still_shows_no_time_left(stands: str, verb: Verb | None, build: JsonBuild) -> None:
    build.plan()
    me = build.reader.draw_attempt({"task": "snapshot", "at": 5})
    build.reader.control.announce(me, {"at": 5} if verb is None else {})
    build.now -= 365 * 86_400_000 if verb is None else 0
    build.start(SnapshotGoal(0, 1, RoundSize(1, 10**6)), me).until(CommitRecord, nth=12)
    if verb is not None:
        build.order(Command(verb, signed=Signature(by="ada")))
    for found in (status(build.location), glance(build.location)):
        assert (found["health"]["condition"], found["rows_per_second"], found["seconds_left"]) == (stands, None, None)


def test_what_a_chain_announced_is_shown(build: JsonBuild) -> None:
    build.spec = replace(build.spec, strategy="chain")
    build.plan()
    found, text = shown(build)
    assert (found["epoch"], found["seen_epoch"]) == (None, build.epoch)
    assert f"before the snapshot's epoch, announced through epoch {build.epoch}" in text


def test_a_log_shows_what_is_pending_and_for_how_long(build: JsonBuild) -> None:
    build.sealed()
    build.now -= 3_700_000
    build.write(rows=3_000, times=2)
    found, text = shown(build)
    assert (found["lag"]["head"], found["lag"]["epochs"], found["lag"]["rows"]) == (9, 2, 6_000)
    assert found["lag"]["age"] >= 3_500_000
    assert "2 epochs, about 6,000 rows, up to epoch 9; the oldest for " in text


def test_an_epoch_in_part_is_shown(build: JsonBuild) -> None:
    build.sealed()
    build.write(rows=10)
    build.start(ConsumeLogGoal(RoundSize(10**9, 4), NO_LAG, PATIENCE)).until(CommitRecord, nth=3)
    assert "at epoch 7 and 1 of 3 parts of epoch 8" in shown(build)[1]


def test_attempts_are_shown_with_what_became_of_them(build: JsonBuild) -> None:
    build.plan()
    control = build.reader.control
    lost, fenced = (
        control.draw_attempt({"task": "snapshot"}, floor=0),
        control.draw_attempt({"task": "snapshot"}, floor=0),
    )
    control.store_outcome(fenced, Fenced("a newer attempt has taken over").to_json())
    found, text = shown(build)
    assert [(one["generation"], one["outcome"]) for one in found["attempts"]] == [
        (1, "OK"),
        (lost.generation, None),
        (fenced.generation, "FENCED"),
    ]
    assert "attempt   2 snapshot: no outcome yet, starting" in text and "attempt   3 snapshot: FENCED" in text


def test_the_way_out_of_an_error_that_needs_a_person_is_shown(build: JsonBuild) -> None:
    build.plan()
    assert "way out" not in shown(build)[1]
    me = build.reader.control.draw_attempt({"task": "snapshot"}, floor=0)
    build.reader.control.store_outcome(me, KeyNull("3 rows have no key").to_json())
    assert f"  way out   {WAYS_OUT['KEY_NULL']}\n" in shown(build)[1]


def test_the_way_out_stays_after_somebody_has_asked_why(build: JsonBuild) -> None:
    build.plan()
    control = build.reader.control
    control.store_outcome(
        control.draw_attempt({"task": "verify"}, floor=0), VerificationFailed("1 key differs").to_json()
    )
    control.store_outcome(control.draw_attempt({"task": "explain"}, floor=0), {"code": "OK", "result": {}})
    assert f"  way out   {WAYS_OUT['VERIFICATION_FAILED']}\n" in shown(build)[1]


def test_an_error_is_shown_to_its_end_where_it_names_its_way_out(build: JsonBuild) -> None:
    build.plan()
    control, keys = build.reader.control, ", ".join(f"id={key}" for key in range(100))
    error = KeyNull(f"rows lack a part of their key ({keys}); correct them in the source")
    control.store_outcome(control.draw_attempt({"task": "snapshot"}, floor=0), error.to_json())
    assert "correct them in the source\n" in shown(build)[1]


def test_the_way_out_is_that_of_the_error_which_stops_the_build(build: JsonBuild) -> None:
    build.sealed()
    build.alter(table_id="source-2")
    assert f"  way out   {WAYS_OUT['SOURCE_REPLACED']}\n" in shown(build)[1]
    control = build.reader.control
    control.store_outcome(control.draw_attempt({"task": "consume_log"}, floor=0), KeyNull("1 row has no key").to_json())
    found, text = shown(build)
    assert f"  way out   {WAYS_OUT['SOURCE_REPLACED']}\n" in text and WAYS_OUT["KEY_NULL"] not in text
    assert found["health"]["way_out"] == WAYS_OUT["SOURCE_REPLACED"]


def test_while_it_is_planned_a_build_says_so_and_who_plans_it(tmp_path: Path) -> None:
    reader = BuildReader(str(tmp_path / "new"))
    with pytest.raises(NotPlanned):
        status(reader)
    me = reader.draw_attempt({"task": "plan", "dag_id": "d", "task_id": "plan", "run_id": "r", "map_index": -1})
    found = status(reader)
    assert (found["phase"], found["since"]) == ("planning", found["attempts"][0]["drawn"])
    assert found["attempts"][0]["dag_id"] == "d" and as_text(found).startswith(f"{reader.target}: planning for ")
    assert ": attempt 1 of the plan task waits for Spark to start" in as_text(found)
    reader.control.announce(me, {})
    assert "attempt 1 of the plan task plans the build" in as_text(status(reader))
    reader.control.store_outcome(me, KeyNull("3 rows have no key").to_json())
    text = as_text(status(reader))
    assert (
        "  health    waiting (needs attention)" in text
        and "the plan task ended with KEY_NULL: 3 rows have no key" in text
    )
    assert f"  way out   {WAYS_OUT['KEY_NULL']}\n" in text


def test_a_target_that_was_deleted_after_its_plan_is_not_being_planned(build: JsonBuild) -> None:
    build.plan()
    shutil.rmtree(build.location)
    with pytest.raises(NotPlanned):
        status(build.location)


@pytest.mark.parametrize("lost", ["history", "table"])
def test_a_build_that_rests_needs_no_source(lost: str, build: JsonBuild) -> None:
    """As on the overview."""
    build.finished()
    build.write(times=5)
    log = build.folder / "source" / "_delta_log"
    for file in sorted(log.glob("*.json"))[-3:-2] if lost == "history" else log.iterdir():
        file.unlink()
    found = status(build.location)
    assert (found["health"]["condition"], found["waits_for"], found["trouble"]) == ("done", [], None)


def test_a_target_that_was_dropped_is_not_being_planned(tmp_path: Path) -> None:
    reader = BuildReader(str(tmp_path / "new"))
    reader.draw_attempt({"task": "plan"})
    reader.draw_attempt({"task": "cancel"})
    with pytest.raises(NotPlanned):
        status(reader)


def test_only_the_last_attempts_are_shown(build: JsonBuild) -> None:
    build.plan()
    for _ in range(20):
        build.reader.control.draw_attempt({"task": "snapshot"}, floor=0)
    assert [one["generation"] for one in shown(build)[0]["attempts"]] == [17, 18, 19, 20, 21]


def test_commands_in_force_are_those_that_a_barrier_acknowledged(build: JsonBuild) -> None:
    build.plan()
    build.order(Command(Verb.HOLD))
    build.order(Command(Verb.THROTTLE, 5_000))
    assert "in force" not in shown(build)[1]
    build.run(READ)
    found, text = shown(build)
    assert "in force  held, 5,000 rows/s at most" in text
    assert found["ordered"] == found["control"]["number"] == 2


@pytest.mark.parametrize("how", ["gone", "replaced", "unreadable"])
def test_a_source_that_cannot_be_followed_hides_nothing_of_the_target(how: str, build: JsonBuild) -> None:
    build.sealed()
    match how:
        case "gone":
            shutil.rmtree(build.spec.source)
        case "replaced":
            build.alter(table_id="source-2")
        case "unreadable":
            Path(build.spec.source, "_delta_log", commit_name(build.source.head)).write_text("{")
    found, text = shown(build)
    assert (found["phase"], found["epoch"], found["lag"]) == ("consume_log", 7, None)
    assert "unknown, because the source cannot be read" in text and "waits for an operator: [" in text
    last = glance(build.location)
    assert last["lag"] is None and last["health"] == found["health"] and last["health"]["needs_attention"]


def test_the_overview_names_the_deleted_epoch_that_is_next(build: JsonBuild) -> None:
    build.sealed()
    build.write(times=3)
    build.source.write_checksum()
    Path(build.spec.source, "_delta_log", commit_name(8)).unlink()
    found, last = status(build.location), glance(build.location)
    assert last["health"] == found["health"] and "[HISTORY_LOST]" in last["health"]["why"]
    assert last["lag"]["epochs"] == found["lag"]["epochs"] == 3


@pytest.mark.parametrize("known", [None, 0, 7, 9, 11, 99])
@pytest.mark.parametrize("how", ["as it was", "checkpointed", "replaced"])
def test_one_glance_sees_what_a_watch_sees_whatever_it_knew(how: str, known: int | None, build: JsonBuild) -> None:
    build.sealed()
    build.write(times=4)
    match how:
        case "checkpointed":
            build.source.write_checksum()
            Path(build.spec.source, "_delta_log", commit_name(9)).unlink()
        case "replaced":
            build.alter(table_id="source-2")
    plan = build.state().plan
    found = glance_at_source(plan, 7, known)
    assert found == watch_source(plan).glance(7) and found.head >= 11


def test_a_hole_in_the_log_is_told_with_what_is_pending(build: JsonBuild) -> None:
    build.sealed()
    build.write(times=4)
    build.source.write_checksum()
    Path(build.spec.source, "_delta_log", commit_name(8)).unlink()
    found, text = shown(build)
    assert found["lag"]["epochs"] == 4
    assert "waits for an operator: [HISTORY_LOST] the build needs epoch 8" in text


def test_a_finished_build_shows_its_proof_and_goes_on_counting(build: JsonBuild) -> None:
    build.finished()
    build.write(times=3)
    found, text = shown(build)
    assert (found["phase"], found["percent"], found["lag"]["epochs"]) == ("finished", 100.0, 3)
    assert "proven    42 rows at epoch 7, full, digest" in text and "hand-off at epoch 7" in text
    assert found["cost"] == COST.to_json() and "at least 2.00 core hours, 5,000 bytes read, 4,000 written" in text
    assert "30 requests, in 3 attempts; 1 did not report everything" in text


def test_a_lost_control_folder_leaves_the_state(build: JsonBuild) -> None:
    build.sealed()
    before, _ = shown(build)
    shutil.rmtree(build.location + ".backfill")
    found, _ = shown(build)
    assert found["attempts"] == []
    assert {k: found[k] for k in ("phase", "epoch", "rows")} == {k: before[k] for k in ("phase", "epoch", "rows")}


@pytest.mark.slow
def test_a_status_prints_what_it_costs(build: JsonBuild) -> None:
    """Processor time of a fresh process, its imports included: printed, not asserted, as machines differ."""
    build.sealed()
    build.write(times=30)
    command = [sys.executable, "-m", "airflow_backfill.cli.main", "status", build.location, "--json"]
    costs = []
    for _ in range(5):
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, check=True)
        after = getrusage(RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert json.loads(done.stdout)["lag"]["epochs"] == 30
    print(f"milliseconds: {[round(1000 * cost) for cost in costs]}")


def test_the_command_line_loads_neither_airflow_nor_pyspark_nor_what_only_other_stores_need() -> None:
    program = "import sys, airflow_backfill.cli.main, airflow_backfill.builds.status; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    unwanted = {"airflow", "pyspark", "pyarrow", "obstore", "deltalake", "airflow_backfill.cli.submit"}
    assert not unwanted & set(done.stdout.split())


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("/lake/raw", "topic orders, then its landing table /lake/raw, planned at epoch 7"),
        (None, "topic orders"),
    ],
)
def test_a_topic_is_named(build: JsonBuild, table: str | None, line: str) -> None:
    build.plan()
    found, _ = shown(build)
    found |= {"topic": "orders", "source": table}
    assert f"  source    {line}\n" in as_text(found)


def test_a_topics_partitions_are_shown_with_what_is_left_and_how_old_it_is(build: JsonBuild) -> None:
    build.plan()
    found, _ = shown(build)
    split = Split(1, Backfilling(9), target=99, read=10, written=10, scanned=9, end=100, oldest=found["seen"] - 61_000)
    found |= {"partitions": [partition(split), partition(Split(0).finished())], "undecodable_rows": 2}
    text = as_text(found)
    assert "  partition 1: backfilling at 9, 90 records left, the oldest is 1 min 1 s old, nothing landed\n" in text
    assert "partition 0" not in text and "upstream, 2 undecodable\n" in text


def differing(build: JsonBuild) -> dict[str, Any]:
    """What is shown of a proof that has failed."""
    me = build.reader.draw_attempt({"task": "prove"})
    told = {"epoch": 3, "target_version": build.state().proven, "counts": {"stale": 1}}
    error = VerificationFailed("differs", **told, sample=[{"kind": "stale", "key": {"id": "7"}}])
    build.reader.control.store_outcome(me, error.to_json())
    found, text = shown(build)
    assert f"  differs   as attempt {me.generation} has found: 1 with other values\n            id=7: with" in text
    check("status", {**found, "prediction": None})
    difference: dict[str, Any] = found["difference"]
    return difference


def test_the_keys_that_differ_stay_while_people_explain_them_and_until_they_are_repaired(build: JsonBuild) -> None:
    build.plan()
    for task in (READ, CONSUME, CATCH_UP):
        build.run(task)
    first, control = differing(build), build.reader.control
    assert first["keys"] == [{"kind": "stale", "key": {"id": "7"}, "explain": ["id=7"]}]
    for _ in range(ATTEMPTS + 2):
        control.store_outcome(build.reader.draw_attempt({"task": "explain"}), {"code": "OK", "result": {}})
    assert shown(build)[0]["difference"] == first
    control.store_outcome(build.reader.draw_attempt({"task": "repair"}), {"code": "OK", "result": {}})
    found, text = shown(build)
    assert found["difference"] is None and "differs" not in text


def test_the_clean_up_removes_the_keys_that_differ(build: JsonBuild) -> None:
    build.finished()
    assert shown(build)[0]["certificate"] is not None and differing(build), "the certificate is of an older version"
    later = now_ms() + 2 * 86_400_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_backfill.builds.cleaning.now_ms", lambda: later)
        assert clean(build.location, 1)["errors"] == 1
    assert shown(build)[0]["difference"] is None
