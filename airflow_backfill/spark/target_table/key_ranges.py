"""A few ranges of a key column that hold all changed keys, so that a MERGE skips files between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from airflow_backfill.spark.target_table.net_change import NetChanges
from airflow_backfill.spark.transform.literal import literal, ordinal
from airflow_backfill.spark.transform.transform import quoted

MOST = 64
"""Delta compares each with the statistics of every file, and Spark with every row that is read."""
_CELLS = 1024


def key_ranges(net: NetChanges, column: str) -> Sequence[tuple[str, str]]:
    """Disjoint ranges of ``column``, as SQL literals, in order. The widest gaps between keys lie outside of them.
    ``column`` is one of the net change's ``bounds``. One job over the staged rows.
    """
    bounds, kind = net.bounds[column], net.frame.schema[column].dataType
    if bounds[0] == bounds[1] or isinstance(kind, StringType):
        return [bounds]
    value = ordinal(F.col(quoted(column)), kind)
    low, high = (ordinal(F.expr(text), kind).cast("double") for text in bounds)
    # Rounding moves a key to another cell at most: the ends of each range are exact.
    cell = F.floor((value.cast("double") - low) / F.nullif(high - low, F.lit(0.0)) * _CELLS)
    found = net.staged.groupBy(cell).agg(F.min(value).alias("low"), F.max(value).alias("high")).collect()
    ranges = _joined([(row["low"], row["high"]) for row in found if row["low"] is not None])
    texts = [(literal(first, kind), literal(last, kind)) for first, last in ranges]
    whole = [(first, last) for first, last in texts if first is not None and last is not None]
    return whole if len(whole) == len(texts) else [bounds]


def in_ranges(column: Column, ranges: Sequence[tuple[str, str]]) -> Column:
    """Whether the column is in one of the ranges."""
    inside = F.lit(False)
    for low, high in ranges:
        inside = inside | column.between(F.expr(low), F.expr(high))
    return inside


def _joined(ranges: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """At most ``MOST`` disjoint ranges with the same values; only the widest gaps remain."""
    ordered = sorted(ranges)
    gaps = sorted((after[0] - before[1] for before, after in pairwise(ordered)), reverse=True)
    least = gaps[MOST - 1] if len(gaps) >= MOST else 0
    found: list[tuple[Any, Any]] = []
    for low, high in ordered:
        if found and low - found[-1][1] <= least:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found
