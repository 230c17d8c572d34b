"""Writes committed progress of a build to ``task_state_store``, from one thread while a task runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_backfill.builds.attempts import attempt
from airflow_backfill.builds.history import longest_ms
from airflow_backfill.builds.waiting import stopping
from airflow_backfill.core.errors import CredentialsExpired, NotPlanned
from airflow_backfill.core.reports.attempt_status import AttemptStatus
from airflow_backfill.core.reports.health import Condition, health, in_words
from airflow_backfill.core.reports.progress import Sample, Speed
from airflow_backfill.core.reports.summary import told
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import obey
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.notifications.metrics import tell_progress
from airflow_backfill.notifications.warnings import Warnings

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

PROGRESS = "progress"
"""The key in ``task_state_store``."""
INTERVAL_SECONDS = 10.0
SAMPLES = 30
"""Looks that saw a new barrier, from which the speed is measured."""


class Reporter:
    """Calls ``also``, stores the progress of a build and tells its warnings, every few seconds until its block ends.
    ``me`` is the attempt that works meanwhile, None if there is none.

    If progress cannot be read or stored, the work goes on with a warning in the log.
    """

    def __init__(
        self,
        hook: LedgerHook,
        target: str,
        store: Any,
        log: Logger,
        warnings: Warnings,
        also: Callable[[], None],
        me: tuple[Attempt, Mapping[str, Any]] | None = None,
    ) -> None:
        self._hook, self._target = hook, target
        self._open()
        self._store, self._log, self._also, self._me = store, log, also, me
        self._warnings = warnings
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._begun = now_ms()
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

    def _open(self) -> None:
        self._reader = self._hook.reader(self._target)
        self._watcher: SourceWatch | None = None

    def look(self) -> None:
        """Store the progress now."""
        try:
            try:
                self._look()
            except CredentialsExpired:
                self._hook.renew()  # for the task, too: it reads the outcome after the last look
                self._open()
                self._look()
        except NotPlanned:
            pass  # nothing is planned yet
        except Exception:
            self._log.warning("progress could not be reported", exc_info=True)

    def _look(self) -> None:
        self._also()
        state = self._reader.told()
        self._watcher = self._watcher or self._hook.watcher(state.plan)
        self._tell(self.progress(state, self._watcher.glance(state.reached), now_ms()))

    def progress(self, state: BuildState, source: Ahead, now: int) -> dict[str, Any]:
        """What people are told of the build, as ``status`` tells it. ``now`` in milliseconds since 1970."""
        sample = Sample.of(state)
        if sample is not None and self._samples and sample.at < self._samples[-1].at:
            self._samples.clear()  # a clock was set back, or another driver has another one
        if sample is not None and (not self._samples or sample.at > self._samples[-1].at):
            self._samples.append(sample)
        same = [one for one in self._samples if one.phase is state.phase]
        speed = Speed.between(same[0], same[-1]) if same else None
        commands = self._reader.commands(state.plan.build)
        control = obey(state.control, commands).at(now)
        statuses, stop = self._at_work(state, now), stopping(state, source)
        known = health(state, control, commands, statuses, stop, now, partial(longest_ms, self._reader.log, state))
        return {**told(state, source, speed, now), "health": known.to_json()}

    def _at_work(self, state: BuildState, now: int) -> list[AttemptStatus]:
        """The attempt that works meanwhile."""
        if self._me is None:
            return []
        me, document = self._me
        document = {"at": self._begun, **document, "attempt": me.name}
        return [attempt(self._reader.control, state, now, me.generation, document)]

    def _tell(self, progress: dict[str, Any]) -> None:
        self._store.set(PROGRESS, progress)
        tell_progress(progress)
        line = _line(progress)
        if line != self._told:
            self._log.info(line)
            self._told = line
        self._warnings.tell(progress)


def _line(progress: Mapping[str, Any]) -> str:
    """The progress in a line of the log; of a build that works, no more than how far it is."""
    share, health = f"{progress['phase_percent']} %, in all {progress['percent']} %", progress["health"]
    line = f"{progress['phase']} {share}, {progress['lag']['epochs']} epochs behind"
    if health["condition"] == Condition.WORKING.value:
        return line
    by = "" if health["by"] is None else f" by {health['by']}"
    return f"{line}; {in_words(health)}{by}: {health['why']}"
