"""How Spark reads a topic in batch, as far as a backfill relies on it (Spark 4.2.0, kafka-clients 4.1.0, Kafka 4.1.0).

* A range ``[start, end)`` gives every record in it that was committed, whatever its offsets are: ends that are holes,
  markers or aborted are no trouble, and a range of holes is empty. ``latest`` is the last stable offset.
* An end beyond the last stable offset, or beyond the log, waits for ``kafkaConsumer.pollTimeoutMs`` (two minutes if
  nothing is said) and then fails: it never gives fewer rows. The error says that data was lost, which need not be.
* A start before the log start fails at once, also if the records went after the frame was made. With
  ``failOnDataLoss=false`` the rows that are gone would be missing without a word.
* A topic that was deleted and created again is read as if it were the same one: only a range that is longer than the
  new log fails. Offsets do not tell them apart; the topic's id would.
* With ``subscribe`` the offsets must name every partition of the topic, a new one too; ``assign`` reads those named.
* ``includeHeaders`` adds ``headers array<struct<key:string,value:binary>>``: null where there are none, in their order,
  with repeated keys, and null values.
* A partition is a task. With ``minPartitions`` above their number, ranges are cut in proportion to their offsets (holes
  count), into about as many tasks; each task costs tenths of a second.
* What fails while offsets are asked for is a Py4JJavaError with ``UnknownTopicOrPartitionException``,
  ``SaslAuthenticationException`` or ``SslAuthenticationException`` among its causes, seconds later, or a
  ``TimeoutException`` for a broker that does not answer, or that speaks another protocol. That takes three minutes:
  ``kafka.default.api.timeout.ms`` (a minute; ``kafka.request.timeout.ms`` must not be more) for each of the
  ``fetchOffset.numRetries`` (3), and ``fetchOffset.retryIntervalMs`` (a second) after each.
* A reader waits ``kafka.fetch.max.wait.ms`` (half a second if nothing is said) at the end of each range.
"""

from __future__ import annotations

import json
import time

import pytest

from airflow_backfill.ledger.java_error import troubles
from airflow_backfill.spark.kafka.reader_options import kafka_options
from demo.kafka.topic import COMPACTED, Record
from tests.kafka.conftest import LOGIN

LOST = "KafkaIllegalStateException: Some data may have been lost"
BOUNDED = {
    "kafka.default.api.timeout.ms": "1000",
    "kafka.request.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
}
BRIEFLY = {"kafkaConsumer.pollTimeoutMs": "1000"}
LATEST = -1


@pytest.fixture
def read(spark, topic):
    """The topic's records from ``start`` to ``end``, each an offset of partition 0 or of all of them."""

    def frame(start=None, end=None, connection=None, **options):
        found = kafka_options(connection or {"bootstrap.servers": topic.servers})
        found |= {"subscribe": topic.name}
        for name, where in (("startingOffsets", start), ("endingOffsets", end)):
            if where is not None:
                where = where if isinstance(where, dict) else {"0": where}
                found[name] = json.dumps({topic.name: where})
        return spark.read.format("kafka").options(**(found | options)).load()

    return frame


def offsets(frame):
    return sorted(row.offset for row in frame.select("offset").collect())


def failure(frame, within: float = 30) -> str:
    """The causes for which a frame cannot be read, known within so many seconds."""
    begun = time.monotonic()
    with pytest.raises(Exception) as failed:
        frame.collect()
    assert time.monotonic() - begun < within
    return "\n".join(f"{trouble.kind}: {trouble.text}" for trouble in troubles(failed.value))


def test_rows_have_headers_and_null_keys_and_values(read, topic):
    topic.create()
    topic.send([Record(b"v", b"k", headers=[("b", b"1"), ("a", None), ("b", b"2")]), Record(None, b"k"), Record(b"")])
    frame = read()
    assert frame.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    full, tombstone, nameless = frame.orderBy("offset").collect()
    assert [(header.key, header.value) for header in full.headers] == [("b", b"1"), ("a", None), ("b", b"2")]
    assert (tombstone.value, tombstone.headers) == (None, None)
    assert (nameless.key, bytes(nameless.value)) == (None, b"")


def test_the_latest_offset_is_before_an_open_transaction(read, topic):
    topic.create()
    topic.send([Record(b"before")])
    with topic.transaction([Record(b"open")]):
        topic.send([Record(b"behind")])
        assert offsets(read()) == offsets(read(0, LATEST)) == [0]
    assert offsets(read()) == [0, 1, 2]


def test_an_end_that_cannot_be_reached_is_an_error_and_not_fewer_rows(read, topic):
    topic.create()
    topic.send([Record(b"before")])
    with topic.transaction([Record(b"open")]):
        assert LOST in failure(read(0, 2, **BRIEFLY))
    assert offsets(read(0, 3)) == [0, 1]
    assert LOST in failure(read(0, 9, **BRIEFLY))
    assert LOST in failure(read(7, 9, **BRIEFLY))


def test_a_range_with_holes_is_read_fully(read, topic):
    topic.create(config=COMPACTED)
    topic.send(Record(b"x", key=b"%d" % (n % 3)) for n in range(10))
    topic.compact()
    ends = {(0, 11): [7, 8, 9, 10], (0, 5): [], (0, 8): [7], (2, 7): [], (6, 10): [7, 8, 9]}
    assert {each: offsets(read(*each)) for each in ends} == ends
    assert offsets(read(0, 11, minPartitions="4")) == [7, 8, 9, 10]
    assert read(0, 11).count() == 4


def test_markers_and_aborted_records_are_holes(read, topic):
    topic.create()
    with topic.transaction([Record(b"aborted")] * 5, commit=False):
        pass
    with topic.transaction([Record(b"committed")] * 5):
        pass
    with topic.transaction([Record(b"aborted")] * 5, commit=False):
        pass
    assert topic.bounds() == (0, 18)
    committed = [6, 7, 8, 9, 10]
    ends = {(0, 18): committed, (0, 3): [], (3, 8): [6, 7], (6, 12): committed, (11, 12): [], (12, 15): []}
    assert {each: offsets(read(*each)) for each in ends} == ends


def test_a_start_before_the_log_start_is_an_error_at_once(read, topic):
    topic.create()
    topic.send(Record(b"x") for _ in range(10))
    planned = read(0, 10)
    topic.truncate(4)
    for frame in (planned, read(0, 10), read(3, 10), read(0, 2)):
        assert LOST in failure(frame)
    assert offsets(read(4, 10)) == [4, 5, 6, 7, 8, 9]
    assert offsets(read(0, 10, failOnDataLoss="false")) == [4, 5, 6, 7, 8, 9]


def test_a_topic_that_was_created_again_is_taken_for_the_same(read, topic):
    topic.create()
    topic.send(Record(b"old") for _ in range(3))
    planned = read(0, 3)
    topic.delete()
    topic.create()
    topic.send(Record(b"new") for _ in range(2))
    assert LOST in failure(read(0, 3, **BRIEFLY))
    topic.send([Record(b"new")])
    assert {bytes(row.value) for row in planned.collect()} == {b"new"}


def test_offsets_name_all_partitions_or_those_assigned(read, spark, topic):
    topic.create()
    topic.send([Record(b"x")])
    planned = read(0, 1)
    topic.grow(2)
    topic.send([Record(b"x", partition=1)])
    for frame in (planned, read(0, 1)):
        assert "Partitions specified for Kafka start offsets don't match" in failure(frame)
    assert read({"0": 1, "1": 0}, {"0": 1, "1": 1}).count() == 1
    one = {"assign": json.dumps({topic.name: [1]}), "startingOffsets": json.dumps({topic.name: {"1": 0}})}
    assigned = spark.read.format("kafka").options(**kafka_options({"bootstrap.servers": topic.servers}) | one).load()
    assert [row.partition for row in assigned.collect()] == [1]
    with pytest.raises(Exception, match=r"greater than the end offset|is after the ending offset"):
        read({"0": 1, "1": 0}, {"0": 0, "1": 1}).collect()


def test_ranges_are_cut_in_proportion_to_their_offsets(read, topic):
    topic.create(3)
    for partition, count in ((0, 100), (1, 10), (2, 1)):
        topic.send(Record(b"x", partition=partition) for _ in range(count))
    whole, cut = read(), read(minPartitions="6")
    assert whole.rdd.getNumPartitions() == read(minPartitions="2").rdd.getNumPartitions() == 3
    tasks = cut.selectExpr("spark_partition_id() AS task", "partition", "offset").groupBy("task", "partition")
    starts = sorted((row.partition, row[2]) for row in tasks.agg({"offset": "min"}).collect())
    assert starts == [(0, 0), (0, 25), (0, 50), (0, 75), (1, 0), (2, 0)]
    assert cut.count() == 111


def test_a_topic_that_is_not_there_is_an_error(read):
    assert "UnknownTopicOrPartitionException" in failure(read())
    assert "UnknownTopicOrPartitionException" in failure(read(0, 3))


def test_a_broker_that_does_not_answer_is_an_error_in_bounded_time(read, topic, broker):
    topic.create()
    assert "TimeoutException" in failure(read(connection={"bootstrap.servers": "127.0.0.1:1"}, **BOUNDED))
    assert "TimeoutException" in failure(read(connection={"bootstrap.servers": broker.sasl_servers}, **BOUNDED))
    broker.pause()
    try:
        assert "TimeoutException" in failure(read(**BOUNDED))
    finally:
        broker.resume()


def test_the_right_password_and_the_right_certificate_are_needed(read, topic, broker):
    topic.create()
    topic.send([Record(b"x")])
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"

    def sasl(password: str) -> dict[str, str]:
        login = f'{module} required username="{LOGIN.user}" password="{password}";'
        mechanism = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
        return {"bootstrap.servers": broker.sasl_servers, **mechanism}

    tls = {"bootstrap.servers": broker.tls_servers, "security.protocol": "SSL"}
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": broker.certificate.read_text()}
    assert offsets(read(connection=sasl(LOGIN.password))) == offsets(read(connection={**tls, **trust})) == [0]
    assert "SaslAuthenticationException" in failure(read(connection=sasl("wrong")))
    assert "SslAuthenticationException" in failure(read(connection=tls))
