"""Stores that fail once, before an operation is done or after it (only the answer is lost), or for a while; and those
whose credentials expire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from airflow_backfill.core.errors import CredentialsExpired, SourceUnavailable
from airflow_backfill.ledger import open_store
from airflow_backfill.ledger.local_store import LocalStore

OPERATIONS = ("create", "put", "delete", "read", "list", "open", "chunks")


class Failing:
    """Counts the operations that it wraps, and fails at one (``at``; 0: at none)."""

    def __init__(self, done: bool = False) -> None:
        self.count = self.at = 0
        self.done = done

    def wrapped(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count != self.at:
                return operation(*arguments, **options)
            if self.done:
                operation(*arguments, **options)
            raise SourceUnavailable("503")

        return call


class Away:
    """The first calls of what it wraps are not answered; ``left`` is how many such calls are still to come."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def wrapped(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                return operation(*arguments, **options)
            self.left -= 1
            raise SourceUnavailable("away")

        return call


class Expiring:
    """Stores that take only the newest session token, which the connection ``lake`` has. Who has no connection needs
    none.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch, self._newest = monkeypatch, 0
        self.rotate()
        monkeypatch.setattr(open_store, "_open", lambda url, spark, options: _Store(self, url, options or {}))

    def rotate(self) -> None:
        self._newest += 1
        extra = {"aws_session_token": str(self._newest)}
        self._monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "table_backfill", "extra": extra}))

    def takes(self, token: str | None) -> bool:
        return token in (None, str(self._newest))


class _Store:
    def __init__(self, stores: Expiring, url: str, options: Mapping[str, Any]) -> None:
        self._stores, self._token, self._store = stores, options.get("aws_session_token"), LocalStore(url)

    def __getattr__(self, name: str) -> Any:
        if not self._stores.takes(self._token):
            raise CredentialsExpired("the session credentials have expired")
        return getattr(self._store, name)
