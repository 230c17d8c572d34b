"""A process that sends the series of parcels to a topic: so many at once, or at a rate until it is stopped.

SIGTERM and SIGINT end it after the records under way.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from itertools import islice

from demo.kafka.parcels import series
from demo.kafka.topic import Topic

BATCH = 10_000
"""Records that are sent together when there is no rate: what a client holds has a bound."""
INTERVAL = 0.25
"""Seconds between two batches at a rate."""
SEED = 1


def send(topic: Topic, first: int, count: int) -> None:
    """Send that part of the series, as fast as the topic takes it."""
    records = islice(series(SEED, first), count)
    for _ in range(0, count, BATCH):
        topic.send(islice(records, BATCH))


def keep_sending(topic: Topic, first: int, rate: float, stop: threading.Event) -> int:
    """Send the series from ``first`` on, so many records per second at most, until told to stop. Returns how many."""
    begun, sent, records = time.monotonic(), 0, series(SEED, first)
    while not stop.wait(INTERVAL):
        due = min(int(rate * (time.monotonic() - begun)) - sent, BATCH)
        topic.send(islice(records, due))
        sent += due
    return sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", help="host and port of a broker")
    parser.add_argument("topic")
    parser.add_argument("--first", type=int, default=0, help="the record of the series to begin with")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--count", type=int, help="send so many, and end")
    amount.add_argument("--rate", type=float, help="send so many per second, at most, and do not end")
    arguments = parser.parse_args()
    topic = Topic(arguments.servers, arguments.topic)
    begun = time.monotonic()
    if arguments.count is None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        sent = keep_sending(topic, arguments.first, arguments.rate, stop)
    else:
        send(topic, arguments.first, sent := arguments.count)
    print(f"{sent:,} records in {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
