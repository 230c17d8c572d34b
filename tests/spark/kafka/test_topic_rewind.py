"""A target of a topic that somebody has changed: after a RESTORE its build goes on, in the history and behind it."""

from __future__ import annotations

import pytest

from airflow_backfill.core.errors import TargetDiverged
from airflow_backfill.core.values.round_size import RoundSize
from demo.kafka.topic import Record, Topic
from tests.spark.kafka.test_ordered_topic import START
from tests.spark.kafka.topics import Landing, MakeBuild

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


def keyed(number: int, value: bytes | None) -> Record:
    return Record(value, b'{"id": %d}' % (number % 7), number % 2, timestamp=START + number)


@pytest.mark.soak
@pytest.mark.parametrize("also_within", [False, True])
def test_a_build_with_a_memory_of_keys_goes_on_from_a_restored_target(
    topic: Topic, landing: Landing, make_build: MakeBuild, also_within: bool
) -> None:
    """``also_within``: it is restored between two rounds of the history, too."""
    topic.create(partitions=2)
    topic.send([keyed(n, None if n % 5 == 0 else b"v%d" % n) for n in range(30)])
    landing.land_all()
    decoding = {"key": "json:id BIGINT", "value": "string", "order": "timestamp"}
    build = make_build(key=["id"], select=["id", "value", "timestamp", "partition", "offset"], topic=decoding)
    build.size = RoundSize(rows=8)
    build.plan()
    if also_within:
        build.first_rounds(2)
        before = build.content()
        build.spark.sql(f"DELETE FROM delta.`{build.target}` WHERE id % 2 = 0")
        with pytest.raises(TargetDiverged) as raised:
            build.snapshot()
        build.led_back(raised.value)
        assert build.content() == before and before
    build.snapshot()
    build.complete()
    topic.send([keyed(n, None if n % 3 == 0 else b"w%d" % n) for n in range(30, 40)])
    landing.land_all()
    build.spark.sql(f"UPDATE delta.`{build.target}` SET value = 'nobody wrote this'")
    with pytest.raises(TargetDiverged) as raised:
        build.upstream()
    build.led_back(raised.value)
    build.upstream()
    last = {n % 7: (n, None if n % 5 == 0 else f"v{n}") for n in range(30)}
    last |= {n % 7: (n, None if n % 3 == 0 else f"w{n}") for n in range(30, 40)}
    assert [row[:2] for row in build.content()] == sorted((key, text) for key, (_, text) in last.items() if text)
