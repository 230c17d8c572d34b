"""A StatsD server of tests: a socket, and what has arrived at it."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Server:
    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound

    def settings(self, **more: str) -> dict[str, str]:
        """Airflow's environment variables for metrics that arrive here."""
        on = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(self._socket.getsockname()[1])}
        return {f"AIRFLOW__METRICS__{name}": value for name, value in {**on, **more}.items()}

    def received(self) -> dict[str, list[str]]:
        """All values of each metric of this package, in the order of their arrival."""
        found = defaultdict(list)
        while True:
            try:
                name, _, value = self._socket.recv(1 << 16).decode().partition(":")
            except BlockingIOError:
                return dict(found)
            if name.startswith("airflow.table_backfill."):
                found[name.removeprefix("airflow.table_backfill.")].append(value)


@contextmanager
def serving() -> Iterator[Server]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        bound.bind(("127.0.0.1", 0))
        bound.setblocking(False)
        yield Server(bound)
