"""Builds of a topic's history by the real applications, over TLS, with a broker that dies: the end is what a client of
its own reads, every offset once, and no secret is anywhere.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from demo.kafka.broker import Broker
from demo.kafka.topic import Topic
from tests.kafka.conftest import LOGIN
from tests.kafka.leaks import written
from tests.spark.kafka.topics import Landing, numbered
from tests.system import event_log
from tests.system.applications import Applications, all_phases
from tests.system.last_values import HISTORY, LastValues
from tests.system.topic_workload import PLACE, ROW, TopicWorkload, connection, rows, shipped
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LAG_EPOCHS = 5
LAG = ("--max-lag-epochs", str(LAG_EPOCHS))
SMALL = ("--round-rows", "400")
ALL = all_phases(LAG_EPOCHS)
WRONG = "the wrong password"


@pytest.mark.soak
def test_a_build_of_a_topic_survives_a_kill_while_it_reads(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    workload = TopicWorkload(topic, tmp_path / "landing")
    target, dead, events = str(tmp_path / "target"), str(tmp_path / "dead"), tmp_path / "events"
    apps = Applications(target, {**event_log.confs(events), **shipped(tmp_path)})
    apps.environment[VARIABLE] = connection(broker)
    plan, small = ("--spec", workload.spec(workload.landing.table, target, dead)), ("--round-rows", "1500")
    with workload.at_work():
        apps.result("plan", *plan)
        assert apps.run("snapshot", *small, crash="before_apply:3:group") is None
        killed, letters = _state(target), rows(dead, PLACE)
        snapshot = apps.result("snapshot", *small)
        until(lambda: workload.head() > _reached(target) + 8)
        # Once the history is read no broker is needed, but for the proof.
        reached = apps.environment.pop(VARIABLE)
        caught_up = apps.result("consume_log", *LAG, "--then", f"catch_up {' '.join(LAG)}")
        apps.environment[VARIABLE] = reached
        finished = apps.result("verify", "--then", "finish")
        del apps.environment[VARIABLE]
        state = _state(target)
    followed = apps.result("upstream")

    assert _beyond(killed, letters), "the kill came before there were dead letters of a round that was not committed"
    _nothing_read_again(events, killed, snapshot["read"]["done"])
    assert caught_up["handoff"] == finished["certificate"]["epoch"] == finished["epoch"] < followed["epoch"]
    handed_over = workload.wanted({n: split.landed for n, split in splits_of(state.positions).items()})
    assert rows(target, ROW, finished["target_version"]) == handed_over.rows
    wanted = workload.wanted()
    assert rows(target, ROW) == wanted.rows
    assert rows(dead, PLACE) == wanted.dead
    assert set(wanted.dead.values()) == set(rows(target, PLACE).values()) == {1}
    beyond = [place for place in rows(workload.landing.table, PLACE).elements() if place[1] > _seam(state, place[0])]
    taken = sum(split.written for split in splits_of(state.positions).values()) + len(beyond)
    assert taken == wanted.rows.total() + wanted.filtered + wanted.dead.total()
    _told_nothing(apps, tmp_path)


@pytest.mark.soak
def test_brokers_that_refuse_stop_a_build_and_brokers_that_die_do_not(
    broker: Broker, topic: Topic, tmp_path: Path
) -> None:
    """Records become rows as they are: files are written while they are read, and committed when all of it is there."""
    topic.create(2)
    landing, target = Landing(topic, tmp_path / "landing"), str(tmp_path / "target")
    for partition in range(2):
        topic.send(numbered(2_000, partition))
    landing.skip({0: 1_000, 1: 1_000})
    landing.land_all()
    spec = {
        "name": "clicks",
        "source": landing.table,
        "target": target,
        "strategy": "source",
        "topic": {"name": topic.name},
        "select": ["partition", "offset", "string(value) AS value"],
    }
    plan, control = ("--spec", json.dumps(spec)), ControlFolder.beside(target)
    apps = Applications(target, {**event_log.confs(tmp_path / "events"), "spark.log.level": "INFO"})
    wrong, stranger = connection(broker, WRONG), connection(broker, trusting=False)
    for refused, why in ((wrong, "SaslAuthenticationException"), (stranger, "SslAuthenticationException")):
        apps.environment[VARIABLE] = refused
        _refused(apps.run("plan", *plan), why)
        assert not Path(target).exists()
    apps.environment[VARIABLE] = connection(broker)
    planned = apps.result("plan", *plan)
    apps.environment[VARIABLE] = wrong
    _refused(apps.run("snapshot", *SMALL), "SaslAuthenticationException")
    assert _read(target) == 0 and not DeltaTable(target).file_uris()

    apps.environment[VARIABLE] = connection(broker)
    assert apps.run("snapshot", *SMALL, crash="before_apply:2:group") is None
    with apps.running("snapshot", *SMALL, *ALL) as me:
        _goes_on(target)
        broker.kill()
        broker.start()
        for partition in range(2):
            topic.send(numbered(100, partition, first=2_000))
        landing.land_all()
        _goes_on(target)
        control.order(planned["build"], Command(Verb.PAUSE))
        until(lambda: _state(target).control.paused)
        broker.kill()
        control.order(planned["build"], Command(Verb.RESUME))
        until(lambda: "the round failed" in _waits(target))
        broker.start()
    outcome = control.outcome(me)
    assert outcome is not None and outcome["code"] == "OK", f"{outcome}\n{apps.log[-1][-3000:]}"
    assert _state(target).phase is Phase.FINISHED
    assert rows(target, [*PLACE, "value"]) == Counter(
        (message.partition(), message.offset(), message.value().decode())
        for partition in topic.partitions()
        for message in topic.records(partition)
    )
    _told_nothing(apps, tmp_path)


@pytest.mark.soak
def test_a_broker_that_stays_away_ends_the_attempt_and_nothing_is_lost(
    spark: SparkSession, broker: Broker, topic: Topic, tmp_path: Path
) -> None:
    build = LastValues.make(topic, tmp_path)
    apps = Applications(build.target, timeout=900)
    apps.environment[VARIABLE] = connection(broker)
    apps.result("plan", *build.plan)
    begun = time.monotonic()
    with apps.running("snapshot", *SMALL) as me:
        until(lambda: _read(build.target) > 0)
        broker.kill()
    assert time.monotonic() - begun < 600
    try:
        _unavailable(ControlFolder.beside(build.target).outcome(me))
        before = _read(build.target)
        elsewhere = Applications(str(tmp_path / "elsewhere"), environment=apps.environment)
        spec = {**json.loads(build.plan[1]), "target": elsewhere.target}
        begun = time.monotonic()
        _unavailable(elsewhere.run("plan", "--spec", json.dumps(spec)))
        assert time.monotonic() - begun < 120 and not Path(elsewhere.target).exists()
    finally:
        broker.start()
    assert 0 < before == _read(build.target) < HISTORY
    apps.result("snapshot", *SMALL, *ALL)
    assert _state(build.target).phase is Phase.FINISHED
    build.check(spark)


def _refused(outcome: Any, why: str) -> None:
    """By a coded error that Airflow does not retry."""
    assert outcome is not None and (outcome["code"], outcome["retry"]) == ("KAFKA_REFUSED", False), outcome
    assert outcome["data"]["kind"] == why


def _unavailable(outcome: Any) -> None:
    assert outcome is not None and (outcome["code"], outcome["retry"]) == ("SOURCE_UNAVAILABLE", True), outcome


def _nothing_read_again(events: Path, killed: BuildState, done: int) -> None:
    """Spark's own log: the retry of the snapshot read the records that were left, from there on and no earlier."""
    splits = splits_of(killed.positions)
    before = sum(split.read for split in splits.values())
    assert 0 < before < done
    _, retry = event_log.logs(events, "snapshot")
    assert event_log.rows(retry, _kafka) >= done - before
    for node in filter(_kafka, event_log.nodes(retry)):
        starts = re.findall(r"-(\d+) -> (\d+)", node["nodeName"].partition("end=")[0])
        assert starts, node["nodeName"]
        for partition, start in starts:
            assert int(start) > splits[int(partition)].scanned, node["nodeName"]


def _kafka(node: event_log.Node) -> bool:
    return node["nodeName"].startswith("Scan KafkaRelation")


def _beyond(state: BuildState, letters: Any) -> list[Any]:
    """Dead letters of records that no committed round has read."""
    return [place for place in letters if place[1] > splits_of(state.positions)[place[0]].scanned]


def _seam(state: BuildState, partition: int) -> int:
    cut = splits_of(state.positions)[partition].cut
    assert cut is not None
    return cut


def _state(target: str) -> BuildState:
    return BuildReader(target).state()


def _reached(target: str) -> int:
    return _state(target).reached


def _read(target: str) -> int:
    """Records of Kafka that committed rounds have read."""
    return sum(split.read for split in splits_of(_state(target).positions).values())


def _goes_on(target: str) -> None:
    before = _read(target)
    until(lambda: _read(target) > before)


def _waits(target: str) -> str:
    newest = _state(target).newest
    return (newest and newest.record.waits) or ""


def _told_nothing(apps: Applications, *places: Path) -> None:
    """No password is in any file, and in nothing that an application said."""
    told = written(*places) + "\n".join(apps.log)
    assert LOGIN.password not in told and WRONG not in told
