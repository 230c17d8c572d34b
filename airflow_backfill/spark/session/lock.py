"""One writer at a time for a target on ``file:``, where two JVMs can both win the same version.

The JVM holds the lock, not Python: after Python is killed, its JVM can still write for seconds and must still hold it.
The lock file is in the control folder, where VACUUM does not reach, and is never deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import ApplicationFailed, TargetBusy
from airflow_backfill.ledger.control_folder import location_beside
from airflow_backfill.ledger.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 600.0
"""How long a second writer waits."""


@dataclass
class _Held:
    channel: Any
    """Closing it releases the lock."""
    holders: int = 1


_held: dict[Path, _Held] = {}
"""The locks that this process's JVM holds, by path: Java refuses to lock a file twice."""
_guard = Lock()


@contextmanager
def locked(
    spark: SparkSession,
    target: str,
    stopped: Event | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    sign: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Hold the target's lock while the block runs; TargetBusy after ``patience_seconds`` in which ``sign``, of the
    writer that has it, has not changed, and ApplicationFailed once ``stopped`` is set. Only ``file:`` has a lock.

    Threads of one application hold it together: within one JVM, Delta gives each version to one writer. Whatever ends
    the whole application (Ctrl-C) does not release it, because the JVM may still write; it ends with the JVM.
    """
    location = Location.parse(target)
    if not location.local:
        yield
        return
    path = Path(location_beside(location.path)) / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    since, stopped = time.monotonic(), stopped or Event()
    known: object = None
    while not _hold(spark, path):
        if sign is not None and (seen := sign()) != known:
            since, known = time.monotonic(), seen
        if time.monotonic() - since >= patience_seconds:
            raise TargetBusy(
                f"another writer has held the lock {path} for {patience_seconds:.0f} s, so nothing can be committed; "
                "end the other application on this target",
                path=str(path),
            )
        log.info("waiting for another writer of %s", target)
        if stopped.wait(1):
            raise ApplicationFailed("the application was stopped")
    try:
        yield
    except Exception:
        _release(path)
        raise
    _release(path)


def _hold(spark: SparkSession, path: Path) -> bool:
    """Whether this process holds the lock, now also for the caller."""
    with _guard:
        held = _held.get(path)
        if held is not None:
            held.holders += 1
            return True
        jvm: Any = spark.sparkContext._jvm
        channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
        if channel.tryLock() is None:
            channel.close()
            return False
        _held[path] = _Held(channel)
        return True


def _release(path: Path) -> None:
    with _guard:
        held = _held[path]
        held.holders -= 1
        if not held.holders:
            del _held[path]
            held.channel.close()
