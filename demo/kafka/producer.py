"""A process that sends the series of parcels to a topic: so many at once, or at a rate until it is stopped.

SIGTERM and SIGINT end it after the records under way.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice

from demo.kafka.parcels import series
from demo.kafka.topic import Record, Topic
from demo.signals import heed

INTERVAL = 0.25
"""Seconds between two looks at how many records are due."""
SEED = 1


def keep_sending(topic: Topic, records: Iterator[Record], rate: float, stop: threading.Event) -> int:
    """Send the records, so many per second on average, until told to stop. Returns how many."""
    begun, sent = time.monotonic(), 0
    while not stop.wait(INTERVAL):
        due = int(rate * (time.monotonic() - begun)) - sent
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
    amount.add_argument("--rate", type=float, help="send so many per second, and do not end")
    arguments = parser.parse_args()
    if arguments.rate is not None and not arguments.rate > 0:
        parser.error(f"the rate is {arguments.rate} records per second; it must be above 0")
    topic, records = Topic(arguments.servers, arguments.topic), series(SEED, arguments.first)
    begun, stop = time.monotonic(), threading.Event()
    if arguments.count is None:
        heed({signal.SIGTERM: stop, signal.SIGINT: stop})
        sent = keep_sending(topic, records, arguments.rate, stop)
    else:
        topic.send(islice(records, sent := arguments.count))
    print(f"{sent:,} records in {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
