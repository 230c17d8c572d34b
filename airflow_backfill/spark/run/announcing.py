"""Announces the epochs of a chain in a thread, while the application works on their data.

A round may take an hour, and announcements must not wait for its barrier. The thread shares only the JVM, which holds
the target's lock; it has its own session, view of the log and lane. Where one of the two waits for what the other
commits, that commit wakes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from pyspark import InheritableThread

from airflow_backfill.core.attempts.announcer import announce
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.clock import now_ms
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
    worked, announced = Event(), Event()
    """The work has committed since the announcer last waited for that, and the other way round."""

    def answer_beside(effect: fx.Effect[Any]) -> Any:
        if over.is_set():
            raise _Over
        if isinstance(effect, fx.SleepUntil):
            return _sleep(effect, worked if effect.for_commit else over)
        return _telling(announced, effect, beside)

    def work() -> None:
        try:
            drive(announce(Attempt(me.generation, f"{me.name}/seen"), build), answer_beside)
        except _Over:
            pass
        except Exception as error:
            log.exception("announcing failed")
            failed.append(error)
            announced.set()

    def answer(effect: fx.Effect[Any]) -> Any:
        if failed:
            raise failed[0]
        if isinstance(effect, fx.SleepUntil) and effect.for_commit:
            return _sleep(effect, announced)
        return _telling(worked, effect, shell)

    thread = InheritableThread(target=work, name="announcing")
    thread.start()
    try:
        yield answer
    finally:
        over.set()
        worked.set()
        thread.join()


def _sleep(sleep: fx.SleepUntil, until: Event) -> None:
    """Sleep, at most until the event. That of another thread's commit is over then."""
    until.wait(sleep.left(now_ms()) / 1000)
    if sleep.for_commit:
        until.clear()


def _telling(committed: Event, effect: fx.Effect[Any], shell: Shell) -> Any:
    """The shell's answer; the event tells that it has committed."""
    answer = shell.answer(effect)
    if isinstance(effect, fx.CommitRecord):
        committed.set()
    return answer
