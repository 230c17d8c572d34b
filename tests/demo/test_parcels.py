"""The series of records of the demo with Kafka, and that the producer sends it without gaps."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from itertools import islice, pairwise
from types import SimpleNamespace

import pytest

from demo.kafka.parcels import PARTITIONS, series
from demo.kafka.producer import keep_sending


def records(count, seed=1, first=0):
    return list(islice(series(seed, first), count))


class Outbox:
    """In place of a topic: keeps what it is sent, and says stop after some batches."""

    def __init__(self, batches):
        self.sent, self.sizes, self.batches, self.stop = [], [], batches, threading.Event()

    def send(self, batch):
        batch = list(batch)
        self.sent += batch
        self.sizes.append(len(batch))
        if len(self.sizes) == self.batches:
            self.stop.set()


def test_a_series_is_the_same_every_time_and_another_one_with_another_seed():
    assert records(2_000) == records(2_000)
    assert records(2_000) != records(2_000, seed=2)


@pytest.mark.parametrize("first", [1, 777])
def test_a_series_can_be_gone_on_with_anywhere(first):
    assert records(100, first=first) == records(first + 100)[first:]


def test_parcels_appear_change_vanish_and_come_back():
    steps = defaultdict(list)
    for record in records(5_000):
        steps[record.key].append(record.value is None)
    assert 1_000 < len(steps) < 2_000
    assert any(not before and not after for values in steps.values() for before, after in pairwise(values))
    assert any(not before and after for values in steps.values() for before, after in pairwise(values))
    assert any(before and not after for values in steps.values() for before, after in pairwise(values))


def test_new_keys_go_on_appearing():
    known = {record.key for record in records(5_000)}
    assert len({record.key for record in records(500, first=100_000)} - known) > 400


def test_a_key_is_always_in_one_partition_and_every_partition_has_some():
    places = defaultdict(set)
    for record in records(5_000):
        places[record.key].add(record.partition)
    assert {len(found) for found in places.values()} == {1}
    assert set.union(*places.values()) == set(range(PARTITIONS))


def test_keys_and_values_are_objects_with_the_fields_that_the_table_selects():
    for record in records(500):
        assert json.loads(record.key).keys() == {"id"}
        assert record.value is None or json.loads(record.value).keys() == {"status", "depot", "grams"}


def test_what_is_sent_at_a_rate_has_no_gap_and_no_repetition(monkeypatch):
    clock = iter([100.0, 100.5, 100.5, 103.0])
    monkeypatch.setattr("demo.kafka.producer.SEND_SECONDS", 0)
    monkeypatch.setattr("demo.kafka.producer.time", SimpleNamespace(monotonic=lambda: next(clock)))
    topic = Outbox(batches=3)
    assert keep_sending(topic, series(1, 7), 100, topic.stop) == 300
    assert topic.sizes == [50, 0, 250]
    assert topic.sent == records(300, first=7)
