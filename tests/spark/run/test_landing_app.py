"""The example of a shared ingestion lands what was committed to a topic, each offset once, whatever ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from airflow_backfill.core.errors import KafkaOption, LandingInvalid
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.ledger.java_error import troubles
from airflow_backfill.spark.kafka.stream_checkpoint import Ingestion
from airflow_backfill.spark.run import landing_app as landing
from demo.kafka.topic import Record
from environment import quick

ROOT = Path(__file__).parents[3]


class Landing:
    """One landing table, and what is in it."""

    def __init__(self, spark, topic, place: Path) -> None:
        self.spark, self.topic, self.place = spark, topic, place
        self.table = str(place / "landed")

    def words(self, *more: str) -> list[str]:
        place = ["--table", self.table, "--checkpoint", str(self.place / "checkpoint")]
        return ["--topic", self.topic.name, *place, *more]

    def run(self, *more: str) -> None:
        landing.land(
            self.spark, {"bootstrap.servers": self.topic.servers}, landing.parser().parse_args(self.words(*more))
        )

    @property
    def rows(self):
        return self.spark.read.format("delta").load(self.table)

    def offsets(self) -> list[tuple[int, int]]:
        return sorted((row.partition, row.offset) for row in self.rows.select("partition", "offset").collect())


@pytest.fixture
def landed(spark, topic, tmp_path) -> Landing:
    return Landing(spark, topic, tmp_path)


def test_rows_are_as_the_kafka_source_gives_them(landed, topic):
    topic.create()
    topic.send(
        [
            Record(b"value", b"key", timestamp=1_700_000_000_123, headers=[("a", b"1"), ("a", None)]),
            Record(None, b"key"),
            Record(b"", None),
        ]
    )
    landed.run("--starting-offsets", "earliest")
    assert landed.rows.schema.simpleString() == (
        "struct<topic:string,partition:int,offset:bigint,timestamp:timestamp,key:binary,value:binary,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    first, tombstone, nameless = landed.rows.orderBy("offset").collect()
    assert (first.topic, first.partition, first.offset) == (topic.name, 0, 0)
    assert (bytes(first.key), bytes(first.value)) == (b"key", b"value")
    assert [(header.key, header.value) for header in first.headers] == [("a", b"1"), ("a", None)]
    assert first.timestamp.timestamp() == 1_700_000_000.123
    assert (bytes(tombstone.key), tombstone.value) == (b"key", None)
    assert (nameless.key, bytes(nameless.value), nameless.headers) == (None, b"", None)


def test_only_what_was_committed_lands_and_what_is_open_lands_later(landed, topic):
    topic.create(2)
    with topic.transaction([Record(b"aborted")], commit=False):
        pass
    with topic.transaction([Record(b"open")]):
        topic.send([Record(b"behind"), Record(b"beside", partition=1)])
        landed.run("--starting-offsets", "earliest")
        assert landed.offsets() == [(1, 0)]
    landed.run()
    assert landed.offsets() == [(0, 2), (0, 3), (1, 0)]


def test_latest_begins_at_the_first_run_and_goes_on_from_there(landed, topic):
    topic.create()
    topic.send([Record(b"before")])
    landed.run()
    assert landed.offsets() == []
    topic.send([Record(b"after")])
    topic.grow(2)
    topic.send([Record(b"new partition", partition=1)])
    landed.run()
    assert landed.offsets() == [(0, 1), (1, 0)]


def test_a_batch_whose_end_was_not_noted_is_not_written_again(landed, topic):
    topic.create()
    topic.send(Record(b"x") for _ in range(5))
    landed.run("--starting-offsets", "earliest")
    # As if it had died between the commit of the table and its own note of it.
    shutil.rmtree(landed.place / "checkpoint" / "commits")
    topic.send([Record(b"x")])
    landed.run()
    assert landed.offsets() == [(0, n) for n in range(6)]


def test_records_that_are_gone_before_they_landed_are_an_error(landed, topic):
    topic.create()
    topic.send(Record(b"x") for _ in range(5))
    landed.run("--starting-offsets", "earliest")
    topic.send(Record(b"x") for _ in range(5))
    topic.truncate(7)
    with pytest.raises(StreamingQueryException) as failed:
        landed.run()
    assert any("Some data may have been lost" in trouble.text for trouble in troubles(failed.value))
    assert landed.offsets() == [(0, n) for n in range(5)]


def test_without_a_connection_it_ends_before_spark_begins(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(KafkaOption, match=VARIABLE):
        landing.connection()


def submitted(landed: Landing, *more: str) -> subprocess.Popen[str]:
    confs = {**quick.confs(), "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    settings = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "1g"]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        VARIABLE: json.dumps({"bootstrap.servers": landed.topic.servers}),
    }
    command = [*submit, *settings, str(ROOT / "spark_apps" / "landing.py"), *landed.words(*more)]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_ingestion_that_is_started_again_lands_each_offset_once(landed, topic):
    topic.create(2)
    producer, sent = Producer({"bootstrap.servers": topic.servers}), 0
    process = submitted(landed, "--starting-offsets", "earliest", "--max-runtime", "300")
    deadline = time.monotonic() + 120
    log = Path(landed.table) / "_delta_log"
    try:
        # Two commits with rows: it dies in the middle of its work, not before or after it.
        while len(list(log.glob("*.json"))) < 3:
            assert time.monotonic() < deadline and process.poll() is None
            for partition in (0, 1):
                producer.produce(topic.name, b"x", partition=partition)
            producer.flush()
            sent += 1
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    again = submitted(landed)
    said, _ = again.communicate(timeout=120)
    assert again.returncode == 0, said
    assert landed.offsets() == [(partition, offset) for partition in (0, 1) for offset in range(sent)]


def test_a_partition_to_which_nothing_came_is_known_to_have_landed(landed, topic):
    """The stream has looked at it, up to where it began: of that nothing will land any more."""
    topic.create(partitions=2)
    topic.send([Record(b"old", partition=n % 2) for n in range(6)])
    landed.run()
    topic.send([Record(b"new", partition=1)])
    landed.run()
    found = Ingestion(landed.spark, str(landed.place / "checkpoint"), landed.table, topic.name)
    newest = DeltaTable(landed.table).version()
    assert [found.ends(epoch) for epoch in (0, newest)] == [{}, {0: 3, 1: 4}]
    topic.send([Record(b"newer", partition=0)])
    landed.run()
    assert [found.ends(epoch) for epoch in (newest, newest + 1)] == [{0: 3, 1: 4}, {0: 4, 1: 4}]
    with pytest.raises(LandingInvalid, match="does not read topic another"):
        Ingestion(landed.spark, found.checkpoint, landed.table, "another").ends(newest)
    with pytest.raises(LandingInvalid, match="no checkpoint"):
        Ingestion(landed.spark, landed.table, landed.table, topic.name).check()
