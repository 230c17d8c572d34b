"""Counts what is asked of the stores of this process, as an object store would count it, and can make requests slow.

The stores are folders of this machine; only their methods are wrapped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any
from unittest.mock import patch

from airflow_backfill.ledger.local_store import LocalStore

PAGE = 1000
"""Names in one answer to a listing."""


class Requests:
    """The requests since the last ``taken``."""

    def __init__(self, delay: float) -> None:
        self._delay, self._lock = delay, Lock()
        self._counts: Counter[str] = Counter()
        self.bytes = 0
        """Bytes that were read, in all."""
        self._now = self.at_once = 0
        """The most requests that were under way at one time, in all."""

    def add(self, kind: str, count: int = 1) -> None:
        with self._lock:
            self._counts[kind] += count
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        time.sleep(self._delay * count)
        with self._lock:
            self._now -= 1

    def got(self, size: int) -> None:
        with self._lock:
            self.bytes += size

    def taken(self) -> Counter[str]:
        """The requests by kind (list, read, write, delete), which are then forgotten."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts


@contextmanager
def counted(delay: float = 0.0) -> Iterator[Requests]:
    """Count all requests of the block; each takes ``delay`` seconds more."""
    found = Requests(delay)

    def listed(self: LocalStore, folder: str, after: str = "") -> Any:
        names = _LIST(self, folder, after)
        found.add("list", len(names) // PAGE + 1)
        return names

    def read(self: LocalStore, name: str, limit: int) -> bytes:
        found.add("read")
        data = _READ(self, name, limit)
        found.got(len(data))
        return data

    def chunks(self: LocalStore, name: str) -> Iterator[bytes]:
        found.add("read")
        for chunk in _CHUNKS(self, name):
            found.got(len(chunk))
            yield chunk

    def one(kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            found.add(kind)
            return call(*arguments)

        return counting

    kinds = {"create": "write", "put": "write", "delete": "delete", "open": "read"}
    wrapped = {name: one(kind, getattr(LocalStore, name)) for name, kind in kinds.items()}
    with ExitStack() as patches:
        for name, method in {**wrapped, "list": listed, "read": read, "chunks": chunks}.items():
            patches.enter_context(patch.object(LocalStore, name, method))
        yield found


_LIST, _READ, _CHUNKS = LocalStore.list, LocalStore.read, LocalStore.chunks
