"""Reads commits ahead of need while they are asked for one after the other.

A driver of one of many lanes reads the commits of all others at each step, and each read mostly waits for the store.
"""

from __future__ import annotations

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.ledger.delta_log import BATCH, DeltaLog


class ReadAhead:
    """Answers as ``log.read`` does. From the third version in a row on, reads twice as many side by side each time."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self.forget()

    def forget(self) -> None:
        """Forget what was read ahead: a new look at the log begins."""
        self._ahead: dict[int, Commit] = {}
        self._last, self._step, self._row = -1, 0, 0

    def read(self, version: int) -> Commit:
        """The commit of a version; HistoryLost or RecordInvalid as for ``DeltaLog.read``."""
        step = version - self._last
        self._row = self._row + 1 if step == self._step and step in (1, -1) else 0
        self._last, self._step = version, step
        if version not in self._ahead:
            self._ahead = {}
            if self._row:
                self._fill(version, step)
        found = self._ahead.pop(version, None)
        return self._log.read(version) if found is None else found

    def _fill(self, version: int, step: int) -> None:
        newest = self._log.known if self._log.known is not None else version
        stop = version + step * min(2 * self._row + 2, BATCH)
        versions = range(version, min(max(stop, -1), newest + 1), step)
        try:
            for number, commit in zip(versions, self._log.read_each(versions), strict=True):
                if commit is not None:
                    self._ahead[number] = commit
        except BackfillError:
            pass  # whoever asks for that version gets the error
