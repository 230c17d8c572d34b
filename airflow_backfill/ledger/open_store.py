"""Opens the store of a location."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.store import Store

StoreOptions = Mapping[str, Any] | None
"""obstore's settings, such as ``aws_endpoint``; they are strings, but for ``aws_credential_provider``: a function that
returns the credentials for the next minutes, as obstore's ``credential_provider``. None: those of the environment.
"""

_wrapper: ContextVar[Callable[[Store], Store] | None] = ContextVar("wrapper", default=None)


@contextmanager
def wrapped(wrapper: Callable[[Store], Store]) -> Iterator[None]:
    """Within the block, in this thread, every store is opened through ``wrapper``: for readers that only show."""
    token = _wrapper.set(wrapper)
    try:
        yield
    finally:
        _wrapper.reset(token)


def open_store(url: str, *, spark: Any = None, options: StoreOptions = None) -> Store:
    """The store of a location: local files directly, others through Spark's Hadoop if ``spark`` is given, else obstore.

    Spark uses its own configuration, not ``options``.
    """
    wrapper = _wrapper.get()
    store = _open(url, spark, options)
    return store if wrapper is None else wrapper(store)


def _open(url: str, spark: Any, options: StoreOptions) -> Store:
    # Imported here: a reader of local files needs only the first.
    location = Location.parse(url)
    if location.local:
        from airflow_backfill.ledger.local_store import LocalStore

        return LocalStore(location.path)
    if spark is not None:
        from airflow_backfill.ledger.hadoop_store import HadoopStore

        return HadoopStore(spark, location)
    from airflow_backfill.ledger.object_store import ObjectStore

    return ObjectStore(location, options or {})
