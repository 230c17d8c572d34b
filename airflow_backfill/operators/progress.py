"""Writes committed progress of a build to ``task_state_store``, from one thread while a task runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import NotPlanned, SourceNotDelta
from airflow_backfill.core.reports.summary import lag, summarize
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.telling.metrics import tell_progress
from airflow_backfill.telling.warnings import Warnings

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

PROGRESS = "progress"
"""The key in ``task_state_store``."""
INTERVAL_SECONDS = 10.0


def progress_of(state: BuildState, source: SourceView, now: int) -> dict[str, Any]:
    """The summary of a build, and its lag. Times are milliseconds since 1970."""
    return {**summarize(state), "lag": lag(state, source, now), "seen": now}


class Reporter:
    """Calls ``also``, stores the progress of a build and tells its warnings, every few seconds until its block ends.

    If progress cannot be read or stored, the work goes on with a warning in the log.
    """

    def __init__(
        self, hook: LedgerHook, target: str, store: Any, log: Logger, warnings: Warnings, also: Callable[[], None]
    ) -> None:
        self._reader, self._hook = hook.reader(target), hook
        self._watcher: SourceWatch | None = None
        self._store, self._log, self._warnings, self._also = store, log, warnings, also
        self._told = ""
        self._stop = Event()
        self._thread = Thread(target=self._run, name="table-backfill-progress", daemon=True)

    def __enter__(self) -> Reporter:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            self.look()

    def look(self) -> None:
        """Store the progress now."""
        try:
            self._also()
            state = self._reader.state()
            self._watcher = self._watcher or self._hook.watcher(state.plan)
            self._tell(progress_of(state, self._watcher.view(state.reached), time.time_ns() // 1_000_000))
        except (NotPlanned, SourceNotDelta):
            pass  # nothing is planned yet
        except Exception:
            self._log.warning("progress could not be reported", exc_info=True)

    def _tell(self, progress: dict[str, Any]) -> None:
        self._store.set(PROGRESS, progress)
        tell_progress(progress)
        line = f"{progress['phase']} {progress['percent']} %, {progress['lag']['epochs']} epochs behind"
        if line != self._told:
            self._log.info(line)
            self._told = line
        self._warnings.tell(progress)
