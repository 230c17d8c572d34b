"""Warnings of a build that goes on: they call the user's callbacks, once a day for as long as they hold.

An error needs none of this: it fails its task, and Airflow calls ``on_failure_callback`` or ``on_retry_callback``, with
the coded error as ``failure`` in the context (``airflow_backfill.failure``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from copy import copy
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from airflow_backfill.core.reports.health import Condition
from airflow_backfill.core.reports.summary import running_out
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.options import invalid

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger

Callback: TypeAlias = "Callable[[Context], Any]"
Callbacks: TypeAlias = "Callback | Sequence[Callback] | None"

WARNED = "warned"
"""The key in ``task_state_store`` of the kinds of warnings, and when each was told: milliseconds since 1970."""
AGAIN_MS = 24 * 3_600_000
CALLBACK_SECONDS = 60.0
"""How long a task waits for a callback. One that hangs ends with the task's process."""


def warnings(progress: Mapping[str, Any], warn_lag: float | None) -> dict[str, str]:
    """What a person should look at in the progress of a build: a message for each kind. ``warn_lag``: seconds."""
    lag, health, found = progress.get("lag"), progress.get("health") or {}, {}
    retention = running_out(progress)
    if retention is not None:
        found["retention"] = retention
    if warn_lag is not None and lag is not None and lag["age"] > warn_lag * 1000:
        age = lasting(lag["age"] / 1000)
        found["lag"] = f"the oldest of {lag['epochs']:,} pending epochs has been pending for {age}"
    if health.get("condition") == Condition.STUCK.value:
        found["stuck"] = health["why"]
    return found


def unattended(found: Mapping[str, Any], warn_lag: float | None, warn_idle: float | None) -> dict[str, str]:
    """As ``warnings``, of a build that may have no task which could send them. ``warn_idle``: seconds for which no
    application may run although one is due; None for ever.
    """
    health = found["health"]
    said = warnings(found, warn_lag)
    idle = 0 if health["since"] is None else found["seen"] - health["since"]
    if health["needs_attention"] and "stuck" not in said:
        waits = "waiting for " if health["condition"] == Condition.WAITING.value else ""
        said["attention"] = ". ".join(part for part in (f"{waits}{health['why']}", health["way_out"]) if part)
    elif health["condition"] == Condition.STARVED.value and warn_idle is not None and idle > warn_idle * 1000:
        said["idle"] = f"no application has run for {lasting(idle / 1000)}; due is {health['why']}"
    return said


def due(found: Mapping[str, str], told: Mapping[str, int], now: int) -> dict[str, str]:
    """Those among ``found`` that nobody was told of for a day. ``told`` says when each was told: milliseconds."""
    return {kind: text for kind, text in found.items() if now - told.get(kind, now - AGAIN_MS) >= AGAIN_MS}


def times_told(stored: Any, now: int) -> dict[str, int]:
    """When each kind was told, as it is ``stored``. What is damaged, or lies more than a day ahead by a clock that was
    wrong, is forgotten: it would fail the task, or silence the warning.
    """
    known = stored if isinstance(stored, Mapping) else {}
    return {kind: at for kind, at in known.items() if type(at) is int and at - now <= AGAIN_MS}


def callbacks_in(given: Callbacks) -> Sequence[Callback]:
    """The callbacks; InvalidSpec if one cannot be called: nobody would notice before there is something to tell."""
    found = list(given) if isinstance(given, Collection) and not callable(given) else [] if given is None else [given]
    for one in found:
        if not callable(one):
            raise invalid("on_warning_callback", one, "must be a notifier, a function, or a list of them")
    return found


class Warnings:
    """Tells the warnings in the progress of a build to the log and to callbacks.

    A callback gets the task's context with ``warning``: ``kind``, ``message``, ``name`` and ``target``. One that raises
    or hangs is logged, and does not disturb the task.

    :param warn_lag: how long the oldest pending epoch may be pending; None for ever.
    """

    def __init__(self, context: Context, log: Logger, callbacks: Callbacks, warn_lag: timedelta | None) -> None:
        self._context, self._log = cast("dict[str, Any]", context), log
        self._callbacks = callbacks_in(callbacks)
        self.warn_lag = None if warn_lag is None else warn_lag.total_seconds()

    def tell(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """Tell what has not been told for a day, by this try or an earlier one. Returns what a trigger has to know, so
        that it resumes the task to tell more: ``warn_lag`` in seconds, and when each kind that is ``known`` was told.
        """
        found = warnings(progress, self.warn_lag)
        return {"warn_lag": self.warn_lag, "known": self._tell(found, progress) if found else {}}

    def _tell(self, found: Mapping[str, str], progress: Mapping[str, Any]) -> dict[str, int]:
        store = self._context["task_state_store"]
        told = times_told(store.get(WARNED), progress["seen"])
        new = due(found, told, progress["seen"])
        told |= dict.fromkeys(new, progress["seen"])
        if new:
            store.set(WARNED, told)
        self.send(new, progress)
        return told

    def send(self, new: Mapping[str, str], progress: Mapping[str, Any]) -> None:
        """Tell these warnings of a build: a message for each kind."""
        target = progress["target"]
        for kind, message in new.items():
            self._log.warning(message)
            self._call({"kind": kind, "message": message, "name": progress.get("name") or target, "target": target})

    def _call(self, warning: dict[str, Any]) -> None:
        for callback in self._callbacks:
            thread = Thread(target=copy_context().run, args=(self._try, callback, warning), daemon=True)
            thread.start()
            thread.join(CALLBACK_SECONDS)
            if thread.is_alive():
                self._log.warning(
                    "a callback of a warning has not ended within %g s, and the task goes on: %s",
                    CALLBACK_SECONDS,
                    callback,
                )

    def _try(self, callback: Callback, warning: dict[str, Any]) -> None:
        try:
            # A notifier renders its texts in place: a copy, so that the next warning gets its own.
            copy(callback)(cast("Context", {**self._context, "warning": warning}))
        except (Exception, SystemExit):  # a thread ends without a word when it exits
            self._log.exception("a callback of a warning failed: %s", callback)
