"""The queries of an application, as Spark's own store of its status knows them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def queries(spark: SparkSession, first: int, *, without: Container[int]) -> Iterator[tuple[int, Any]]:
    """Number and Java's ``SQLExecutionUIData`` of each query from the number ``first`` on that Spark still knows."""
    store: Any = spark._jsparkSession.sharedState().statusStore()
    count = store.executionsCount()
    ends = [store.executionsList(place, 1) for place in (0, max(count - 1, 0))]
    if any(end.isEmpty() for end in ends):
        return
    oldest, newest = (end.head().executionId() for end in ends)
    for number in range(max(first, oldest), newest + 1):
        if number not in without and (found := store.execution(number)).isDefined():
            yield number, found.get()
