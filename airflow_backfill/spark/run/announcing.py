"""Announces the epochs of a chain in a thread, while the application works on their data.

A round may take an hour, and announcements must not wait for its barrier. The thread shares only the JVM, which holds
the target's lock; it has its own session, view of the log and lane.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from pyspark import InheritableThread

from airflow_backfill.core.attempts.announcer import announce
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.spark.run.interpreter import Shell

log = logging.getLogger(__name__)


class _Over(Exception):
    """The application's work has ended."""


@contextmanager
def announcing(shell: Shell, me: Attempt, build: str | None) -> Iterator[Callable[[fx.Effect[Any]], Any]]:
    """Announce while the block runs. Answer the effects of the block's work with the function that this yields: it
    answers like ``shell``, and raises the error of announcing if that has failed.
    """
    beside = Shell(shell.spark.newSession(), shell.target, shell.stopped, shell.round_bytes)
    over, failed = Event(), list[Exception]()

    def answer_beside(effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.SleepUntil):
            over.wait(max(0.0, effect.until / 1000 - time.time()))
        if over.is_set():
            raise _Over
        return None if isinstance(effect, fx.SleepUntil) else beside.answer(effect)

    def work() -> None:
        try:
            drive(announce(Attempt(me.generation, f"{me.name}/seen"), build), answer_beside)
        except _Over:
            pass
        except Exception as error:
            log.exception("announcing failed")
            failed.append(error)

    def answer(effect: fx.Effect[Any]) -> Any:
        if failed:
            raise failed[0]
        return shell.answer(effect)

    thread = InheritableThread(target=work, name="announcing")
    thread.start()
    try:
        yield answer
    finally:
        over.set()
        thread.join()
