"""Airflow with a home of its own, before anything imports it."""

from __future__ import annotations

from tests.airflow.home import HOME

__all__ = ["HOME"]
