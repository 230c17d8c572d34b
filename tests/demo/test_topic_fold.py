"""The second opinion of the demo with Kafka: the last value of each key, up to offsets."""

from __future__ import annotations

import json

from confluent_kafka import Message

from demo.fold import compare
from demo.kafka.fold import below, fold, parcel


def message(offset, number, status=None, partition=0, grams=1_500):
    value = None if status is None else json.dumps({"status": status, "depot": "d", "grams": grams}).encode()
    key = json.dumps({"id": number}).encode()
    return Message(topic="parcels", partition=partition, offset=offset, key=key, value=value)


def folded(*messages):
    return {row["id"]: (row["status"], row["partition"], row["offset"]) for row in fold(messages)}


def test_the_last_value_of_a_key_stays():
    found = folded(message(0, 1, "a"), message(1, 2, "b"), message(2, 1, "c"), message(0, 5, "d", partition=1))
    assert found == {1: ("c", 0, 2), 2: ("b", 0, 1), 5: ("d", 1, 0)}


def test_a_tombstone_deletes_and_a_later_value_brings_back():
    assert folded(message(0, 1, "a"), message(1, 1), message(2, 2)) == {}
    assert folded(message(0, 1, "a"), message(1, 1), message(4, 1, "b")) == {1: ("b", 0, 4)}


def test_only_what_is_before_the_end_of_its_partition_counts():
    messages = [message(offset, offset, "a", partition) for partition in (0, 1, 2) for offset in range(4)]
    found = [(one.partition(), one.offset()) for one in below(messages, {0: 2, 1: 4})]
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_row_is_what_the_example_selects():
    (row,) = fold([message(7, 1, "sorted", partition=3)])
    wanted = {"id": 1, "status": "sorted", "depot": "d", "kilograms": 1.5, "partition": 3, "offset": 7}
    assert parcel(row) == wanted
    assert parcel({**row, "status": "returned"}) is None


def test_a_table_that_missed_an_update_a_tombstone_or_a_record_is_found_out():
    messages = [message(0, 1, "a"), message(1, 2, "a"), message(2, 3, "a"), message(3, 1, "b"), message(4, 2)]

    def table(*rows):
        return [parcel(row) for row in fold(rows)]

    assert compare(fold(messages), table(*messages), ["id"], parcel).equal
    without = {n: compare(fold(messages), table(*messages[:n], *messages[n + 1 :]), ["id"], parcel) for n in (2, 3, 4)}
    assert without[2].missing == [(3,)] and without[3].stale == [(1,)] and without[4].extra == [(2,)]


def test_the_same_value_of_an_earlier_record_is_not_the_last_one():
    messages = [message(0, 1, "a"), message(1, 1, "a")]
    actual = [parcel(row) for row in fold(messages[:1])]
    assert compare(fold(messages), actual, ["id"], parcel).stale == [(1,)]
