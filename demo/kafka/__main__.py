"""The demo with Kafka: Airflow and Spark build a table from a topic's history and from records that land meanwhile.

It starts a broker and a producer. At the end a plain Kafka client reads the topic, and must get the same rows.
``SCALE`` 1 is a history of 400,000 records; ``RATE`` is the producer's records per second.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.ledger.reader import BuildReader
from demo.airflow import Airflow
from demo.fold import compare
from demo.kafka.broker import Broker
from demo.kafka.fold import below, fold, parcel
from demo.kafka.parcels import PARTITIONS, series
from demo.kafka.topic import Topic
from demo.process import ROOT, Check, beside, end_in_order, fail, held, throughout
from demo.progress import account
from demo.reading import by_delta_rs

NAME = "parcels"
HISTORY = 400_000
ABORTED = 1_000
LANDING_SECONDS = 120.0
"""The ingestion must land its first records within this time."""


def main() -> int:
    end_in_order()
    place = Path(os.environ.get("TABLE_BACKFILL_DEMO", ROOT / ".demo-kafka")).absolute()
    history, rate = round(HISTORY * float(os.environ.get("SCALE", "1"))), os.environ.get("RATE", "200")
    begun = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("landing", "targets"):
        (place / folder).mkdir(parents=True)
    with held(Broker(place / "broker", apart=True).__enter__, Broker.stop) as broker:
        equal = _build(Topic(broker.servers, NAME), history, rate, place)
    print(f"\nThe producer: {(place / 'producer.log').read_text().splitlines()[-1]}")
    print(f"The demo took {time.monotonic() - begun:.0f} s. Logs: {place}/*.log")
    return 0 if equal else 1


def _build(topic: Topic, history: int, rate: str, place: Path) -> bool:
    """Build the table while the topic grows. Whether it equals what a plain client reads from the topic."""
    connection, target = {"bootstrap.servers": topic.servers}, place / "targets" / NAME
    airflow = Airflow(place, {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": connection})})
    with airflow.prepared():
        _live(topic, history, place)
    producer = throughout(_producer(topic, "--first", str(history), "--rate", rate), place / "producer.log")
    with producer as producing, _ingestion(place, connection) as landing:
        _wait_for_landing(place, [producing, landing])
        airflow.run([NAME, f"{NAME}_follow"], [target], [producing, landing])
        print("\n" + "\n".join(account(target)), flush=True)
        return _check(topic, target, history)


def _live(topic: Topic, count: int, place: Path) -> None:
    """Create the topic with its history."""
    print(f"The topic {topic.name} gets a history of {count:,} records in {place}", flush=True)
    topic.create(PARTITIONS)
    # Offsets without a record, for readers of committed records.
    with topic.transaction(islice(series(seed=0), ABORTED), commit=False):
        pass
    with beside(_producer(topic, "--count", str(count)), place / "history.log"):
        pass


def _producer(topic: Topic, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "demo.kafka.producer", topic.servers, topic.name, *arguments]


def _ingestion(place: Path, connection: dict[str, str]) -> AbstractContextManager[Check]:
    """Run the example ingestion, which lands new records."""
    command = [sys.executable, "-m", "demo.kafka.ingestion", "--topic", NAME, "--max-runtime", "86400"]
    command += ["--table", str(_landing(place)), "--checkpoint", f"{_landing(place)}.checkpoint"]
    environment = {**os.environ, VARIABLE: json.dumps(connection)}
    return throughout(command, place / "ingestion.log", environment=environment)


def _landing(place: Path) -> Path:
    return place / "landing" / NAME


def _wait_for_landing(place: Path, checks: Sequence[Check]) -> None:
    """Return once the ingestion has landed its first records."""
    print("An ingestion lands new records every two seconds", flush=True)
    first, deadline = _landing(place) / "_delta_log" / f"{1:020d}.json", time.monotonic() + LANDING_SECONDS
    while not first.exists():
        for check in checks:
            check()
        if time.monotonic() > deadline:
            fail(place / "ingestion.log")
        time.sleep(0.2)


def _check(topic: Topic, target: Path, history: int) -> bool:
    """Whether the table equals what a plain client reads from the topic up to the table's offsets, which must include
    the whole history.
    """
    summary = summarize(BuildReader(str(target)).state())
    records = [record for partition in topic.partitions() for record in topic.records(partition)]
    taken = below(records, {one["partition"]: _end(one) for one in summary["partitions"]})
    actual = by_delta_rs(target, summary["target_version"])
    difference = compare(fold(taken), actual, ["id"], parcel)
    print(
        f"  checked: a plain Kafka client reads {len(taken):,} records up to these offsets (the topic now has "
        f"{len(records):,}); the last values by key, compared with the table: {difference}"
    )
    if len(taken) < history:
        print(f"  failed: the history has {history:,} records, so the table lacks some")
    return difference.equal and len(taken) >= history


def _end(partition: dict[str, Any]) -> int:
    """The first offset of a partition that the table does not include."""
    return max((offset + 1 for offset in (partition["seam"], partition["landed"]) if offset is not None), default=0)


if __name__ == "__main__":
    sys.exit(main())
