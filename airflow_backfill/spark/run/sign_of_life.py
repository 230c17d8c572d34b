"""Signs of life of an attempt: its announcement, renewed while its application works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from airflow_backfill.core.reports.attempt_status import SIGN_SECONDS
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import ControlFolder


@contextmanager
def signs_of_life(
    control: ControlFolder,
    me: Attempt,
    facts: Mapping[str, Any],
    every: float = SIGN_SECONDS,
    cost: Callable[[], Mapping[str, Any]] | None = None,
) -> Iterator[None]:
    """Announce the attempt with these facts, and again every few seconds until the block ends, with its ``cost`` so
    far. A sign that cannot be stored is left out: people look at them, and nothing else does. While one waits for the
    store, the log says so: Hadoop's clients repeat requests for up to hours, and say nothing.
    """
    announced = {**facts, "at": now_ms()}
    control.announce(me, announced)
    over = Event()

    def sign() -> None:
        try:
            control.announce(me, {**announced, "alive": now_ms(), **({} if cost is None else {"cost": cost()})})
        except Exception:
            logging.warning("a sign of life could not be stored", exc_info=True)

    def renew() -> None:
        while not over.wait(every):
            with _wait_told(every):
                sign()
        if cost is not None:
            sign()

    thread = Thread(target=renew, name="table-backfill-sign-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(every)  # no longer: a store that hangs must not hold the outcome back


@contextmanager
def _wait_told(every: float) -> Iterator[None]:
    """Say every few seconds that the block waits for the store."""
    done, begun = Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(every):
            waited = time.monotonic() - begun
            logging.warning("the target's store has not answered for %.0f s; requests to it are repeated", waited)

    Thread(target=tell, name="table-backfill-store-waits", daemon=True).start()
    try:
        yield
    finally:
        done.set()
