"""Signs of life of an attempt: its announcement, renewed while its application works."""

from __future__ import annotations

import logging
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
    far. A sign that cannot be stored is left out: people look at them, and nothing else does.
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
