"""A topic's history, built by the product, and by Spark's plain batch read of the topic into a Delta table."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.planner import OnExisting, Planner
from bench import contenders as c
from bench.ratio import Race, Timed
from bench.tables import Tables
from demo.kafka.broker import Broker
from demo.kafka.topic import Record, Topic

PARTITIONS = 4
SELECT = ["partition", "offset", "timestamp", "key", "value"]


def histories(spark: SparkSession, tables: Tables, records: int, parts: int, rounds: int) -> Race:
    """A history in ``parts`` rounds, from a broker that runs meanwhile."""
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory)) as broker:
        topic = Topic(broker.servers, "bench")
        topic.create(PARTITIONS)
        filler = b"x" * 200
        topic.send(Record(b"%d %s" % (n, filler), b"%d" % n, n % PARTITIONS) for n in range(records))
        os.environ[VARIABLE] = json.dumps({"bootstrap.servers": broker.servers})
        size = RoundSize(rows=-(-records // parts))

        def ours(number: int) -> Timed:
            target = tables.fresh(f"history-{number}")
            options = {"name": "bench", "target": target, "strategy": "source", "select": SELECT}
            spec = BackfillSpec.parse({**options, "topic": {"name": topic.name}})
            Planner(spark, spec, 1, c.attempt(target)).plan(OnExisting.RESUME)
            return lambda: c.snapshot(spark, target, size)

        def plain(number: int) -> Timed:
            target = tables.fresh(f"plain-{number}")
            reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
            rows = reader.option("subscribe", topic.name).option("startingOffsets", "earliest").load()
            return lambda: rows.selectExpr(*SELECT).write.format("delta").save(target)

        title = f"history of {records:,} records in {parts} rounds"
        return Race(title, {"table backfill": ours, "plain batch read": plain}).run(rounds)
