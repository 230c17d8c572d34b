"""Applications without Spark: they decide as those with Spark do, and damage no table of theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_backfill.core.model import plan
from airflow_backfill.core.state.effect import CommitPlan
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.testing.applications import BYTES, MADE, Shell, main
from airflow_backfill.testing.json_log import JsonLog
from tests.airflow.without_spark import WHOLE, built, commit_to, order


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement", "chain", "auto"])
def test_every_strategy_reaches_the_hand_off(source, target, strategy):
    built(source, target, *WHOLE[:3], strategy=strategy)
    commit_to(source, 2)
    state = built(source, target, *WHOLE[3:])
    assert (state.phase, state.certificate.epoch) == (Phase.FINISHED, 5)
    assert ("keys" in state.plan.splits.to_json()) == (strategy == "arrangement")


_NO_PYSPARK = """
import sys

sys.modules |= {{"pyspark": None, "py4j": None}}
from airflow_backfill.spark.run.application import attempted
from airflow_backfill.testing.applications import main
from tests.airflow.without_spark import WHOLE, built

assert attempted(lambda: 1 / 0)["code"] == "APPLICATION_FAILED"
place = {target!r}
built({source!r}, place, *WHOLE)
for line in (["explain", "--key", "id=1"], ["prove"], ["upstream"], ["repair"], ["recover"], ["cancel", "--drop"]):
    said = main(line[0], ["--target", place, *line[1:]])
    assert said["code"] != "APPLICATION_FAILED", (line, said)
"""


def test_nothing_of_them_needs_pyspark(source, target):
    """The Spark provider brings only PySpark's client, so a plain installation of this package has no more."""
    code = _NO_PYSPARK.format(source=str(source), target=str(target))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("strategy", ["arrangement", "chain"])
def test_a_strategy_of_one_lane_has_no_more_neither_planned_nor_later(source, target, strategy):
    """The lanes of a DAG may be changed while its build runs, and its spec says nothing of them."""
    spec = {"name": "orders", "source": str(source), "target": str(target), "key": ["id"], "strategy": strategy}
    planned = main("plan", ["--target", str(target), "--spec", json.dumps(spec), "--lanes", "3"])
    assert (planned["code"], planned["data"]) == ("SPEC_INVALID", {"field": "lanes"})
    built(source, target, "plan", strategy=strategy)
    for lane in ("1", "0"):
        refused = main("snapshot", ["--target", str(target), "--lane", lane, "--lanes", "3"])
        assert (refused["code"], refused["data"]) == ("SPEC_INVALID", {"field": "lanes"})
    assert built(source, target, *WHOLE[1:], strategy=strategy).phase is Phase.FINISHED


def test_a_topic_needs_spark(target):
    spec = {"name": "orders", "target": str(target), "strategy": "source", "topic": {"name": "orders"}}
    assert "with Spark" in main("plan", ["--target", str(target), "--spec", json.dumps(spec)])["message"]
    assert not target.exists()


def test_a_target_of_spark_is_left_alone(source, target):
    built(source, target, "plan")
    log, shell = JsonLog(str(target)), Shell(str(target))
    _, metadata = shell.reader.log.protocol_and_metadata()
    properties = {name: value for name, value in metadata.configuration.items() if name != MADE}
    log.land(Commit(log.head + 1, metadata=replace(metadata, configuration=properties)))
    for application, *more in (["snapshot"], ["cancel"], ["cancel", "--drop"]):
        assert main(application, ["--target", str(target), *more])["code"] == "TARGET_EXISTS"
    assert log.head == 2


def test_a_restart_drops_the_build(source, target):
    spec = json.dumps(built(source, target, "plan", "snapshot").plan.spec.to_json())
    before, line = built(source, target).plan.build, ["--target", str(target), "--spec", spec]
    assert main("plan", [*line, "--on-existing", "restart"])["code"] == "OK"
    assert built(source, target).plan.build != before


@pytest.mark.parametrize(
    ("gate", "hold", "reached"),
    [
        ("", False, Phase.FINISHED),
        ("", True, Phase.CONSUME_LOG),
        ("--window 00:00 00:00:00.000001 UTC", False, Phase.CONSUME_LOG),
        ("--window 00:00 12:00 Europe/Atlantis", False, Phase.CONSUME_LOG),
        ("--window 00:00 00:00:00.000001 UTC --window 00:00 23:59:59.999999 UTC", False, Phase.FINISHED),
    ],
    ids=["open", "held", "outside of its window", "unknown zone", "in its window"],
)
def test_an_application_goes_on_up_to_a_closed_gate(source, target, gate, hold, reached):
    built(source, target, "plan")
    if hold:
        order(target, Verb.HOLD)
    lag = "--max-lag-epochs 0"
    phases = [f"consume_log {lag}", f"gate {lag} {gate}", f"catch_up {lag}", "verify", "finish"]
    then = [word for phase in phases for word in ("--then", phase)]
    assert main("snapshot", ["--target", str(target), *then])["code"] == "OK"
    assert built(source, target).phase == reached


@pytest.mark.parametrize(("most_bytes", "reached"), [(BYTES, Phase.FINISHED), (BYTES - 1, Phase.SNAPSHOT)])
def test_the_application_of_a_plan_goes_on_if_the_build_is_small(source, target, monkeypatch, most_bytes, reached):
    monkeypatch.setattr(plan, "SMALL_BYTES", most_bytes)
    lag = "--max-lag-epochs 0"
    phases = ["snapshot", f"consume_log {lag}", f"gate {lag}", f"catch_up {lag}", "verify", "finish"]
    then = [word for phase in phases for word in ("--then", phase)]
    spec = json.dumps({"name": "orders", "source": str(source), "target": str(target), "key": ["id"]})
    outcome = main("plan", ["--target", str(target), "--spec", spec, *then])
    assert (outcome["code"], outcome["result"]["phase"]) == ("OK", reached.value)
    assert outcome["result"]["report"]["bytes"] == BYTES


def test_a_phase_that_cannot_follow_a_plan_is_refused_before_anything_is_made(source, target):
    spec = json.dumps({"name": "orders", "source": str(source), "target": str(target), "key": ["id"]})
    outcome = main("plan", ["--target", str(target), "--spec", spec, "--then", "plan"])
    assert outcome["code"] == "SPEC_INVALID" and not target.exists()


def test_a_commit_that_comes_second_is_tried_again_and_no_commit_lands_twice(source, target, monkeypatch):
    state, land, rivals = built(source, target, "plan"), JsonLog.land, [Commit(2, operation="OPTIMIZE")]

    def raced(log, commit):
        if rivals:
            land(log, rivals.pop())
        return land(log, commit)

    monkeypatch.setattr(JsonLog, "land", raced)
    head = built(source, target, "snapshot").proven
    assert Shell(str(target)).answer(CommitPlan(state.plan)).conflict is None
    assert (JsonLog(str(target)).read(2).operation, JsonLog(str(target)).head) == ("OPTIMIZE", head)
