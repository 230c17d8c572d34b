"""A process that sends the series of parcels to a topic: a number of records at once, or a rate until it is stopped.

SIGTERM and SIGINT end it after the records in flight.
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
from demo.signals import set_on_signal

SEND_SECONDS = 0.25
"""Time between two batches of records."""
SEED = 1


def keep_sending(topic: Topic, records: Iterator[Record], rate: float, stop: threading.Event) -> int:
    """Send ``rate`` records per second on average until ``stop`` is set. Returns the number of records."""
    begun, sent = time.monotonic(), 0
    while not stop.wait(SEND_SECONDS):
        due = int(rate * (time.monotonic() - begun)) - sent
        topic.send(islice(records, due))
        sent += due
    return sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", help="host and port of a broker")
    parser.add_argument("topic")
    parser.add_argument("--first", type=int, default=0, help="number of the first record in the series")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--count", type=int, help="number of records to send")
    amount.add_argument("--rate", type=float, help="records per second, until stopped")
    arguments = parser.parse_args()
    if arguments.rate is not None and not arguments.rate > 0:
        parser.error(f"--rate is {arguments.rate} records per second; it must be above 0")
    topic, records = Topic(arguments.servers, arguments.topic), series(SEED, arguments.first)
    begun, stop = time.monotonic(), threading.Event()
    if arguments.count is None:
        set_on_signal({signal.SIGTERM: stop, signal.SIGINT: stop})
        sent = keep_sending(topic, records, arguments.rate, stop)
    else:
        topic.send(islice(records, sent := arguments.count))
    print(f"{sent:,} records in {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
