"""Follows one request to a service, for as long as it is worth waiting for, and lets the service know that it does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.service.heartbeat import SILENT_SECONDS, WATCH_SECONDS
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.service_folder import ServiceFolder


@dataclass
class RequestWatch:
    """Looks at the request ``name`` in the folder at ``service``.

    ``patience_seconds`` is how long a service may take to take it. That, and how long a service has been silent, is
    measured by this process's own clock, so whoever continues the watch elsewhere begins to count anew.
    """

    service: str
    name: str
    patience_seconds: float
    ledger_conn_id: str | None

    def __post_init__(self) -> None:
        self.last: list[str | int] | None = None
        self._since = 0.0
        self._begun: float | None = None
        self._signed: float | None = None
        self._folder: ServiceFolder | None = None

    @staticmethod
    def from_json(value: dict[str, Any]) -> RequestWatch:
        return RequestWatch(**value)

    def to_json(self) -> dict[str, Any]:
        names = ("service", "name", "patience_seconds", "ledger_conn_id")
        return {name: getattr(self, name) for name in names}

    @property
    def folder(self) -> ServiceFolder:
        self._folder = self._folder or LedgerHook(self.ledger_conn_id).service(self.service)
        return self._folder

    def over(self) -> bool:
        """Whether the wait is over: the work has ended, or is lost. While it is not, the service is told that
        the task still waits.
        """
        if not self.folder.wanted(self.name) or self._lost():
            return True
        self.sign()
        return False

    def lives(self, last: list[str | int] | None) -> bool:
        """Whether a service works on the request, and has given a sign of life after the ``last`` one: its name, and
        the number of its heartbeat.
        """
        taker = self.folder.taken_by(self.name)
        sign = None if taker is None else self._sign_of(taker)
        return sign is not None and sign != last

    def sign(self) -> None:
        """Tell the service that the task still waits, unless the last sign is recent."""
        now = time.monotonic()
        if self._signed is None or now - self._signed >= WATCH_SECONDS:
            self.folder.watch(self.name, now_ms())
            self._signed = now

    def _lost(self) -> bool:
        taker = self.folder.taken_by(self.name)
        if taker is None:
            self._begun = time.monotonic() if self._begun is None else self._begun
            return time.monotonic() >= self._begun + self.patience_seconds
        sign = self._sign_of(taker)
        if sign is None:
            return True
        if sign != self.last:
            self.last, self._since = sign, time.monotonic()
        return time.monotonic() >= self._since + SILENT_SECONDS

    def _sign_of(self, taker: str) -> list[str | int] | None:
        heartbeat = self.folder.heartbeat(taker)
        return None if heartbeat is None else [taker, heartbeat.number]
