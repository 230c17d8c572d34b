"""Airflow with a home of its own, before anything imports it."""

from __future__ import annotations

from tests.airflow.home import HOME
from tests.airflow.task import context, source, target

__all__ = ["HOME", "context", "source", "target"]
