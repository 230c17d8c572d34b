"""The right store for a location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.store import Store


def open_store(url: str, *, spark: Any = None, options: Mapping[str, str] | None = None) -> Store:
    """The store for a location: local files directly, others through Spark's Hadoop if given, else obstore.

    ``options`` are obstore's settings, such as ``aws_endpoint``; with Spark, its own configuration is used.
    """
    # Imported where they are needed: a reader of local files needs none but the first.
    location = Location.parse(url)
    if location.local:
        from airflow_backfill.ledger.local_store import LocalStore

        return LocalStore(location.path)
    if spark is not None:
        from airflow_backfill.ledger.hadoop_store import HadoopStore

        return HadoopStore(spark, location)
    from airflow_backfill.ledger.object_store import ObjectStore

    return ObjectStore(location, options or {})
