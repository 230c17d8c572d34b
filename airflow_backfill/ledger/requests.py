"""How many requests this process has made to object stores without Spark, counted where they are made."""

from __future__ import annotations

from threading import Lock


class Requests:
    """A count that threads share. Repetitions inside the client are not in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made = 0

    @property
    def made(self) -> int:
        return self._made

    def count(self, number: int = 1) -> None:
        with self._lock:
            self._made += number


REQUESTS = Requests()
