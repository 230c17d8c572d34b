"""Ranges of a table's key, chosen at random, so that two tables can be compared in a part of their rows.

A range is what one file holds of the key's first column. All rows of both sides with a key in it are compared, so a row
that is missing, doubled or different there is found on either side. If the files are clustered by the key, only files
of the range are read; if not, each range is nearly the whole table, and a sample costs as much as a full proof.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import VersionFiles

USUAL_SHARE = 0.01
Range = tuple[Any, Any]
"""The least and the greatest value, both inclusive, as ordinals."""


def chosen_ranges(files: VersionFiles, order: KeyOrder, share: float, chance: random.Random) -> list[Range]:
    """What randomly chosen files hold of the first column of ``order``. Together they have at least this share of the
    bytes.
    """
    numbers = list(range(len(files.files)))
    chance.shuffle(numbers)
    left, chosen = share * sum(file.size for file in files.files), list[int]()
    while numbers and left > 0:
        chosen.append(numbers.pop())
        left -= files.files[chosen[-1]].size
    if not chosen:
        return []
    (value,) = order.ordinals()
    each = files.read(*(range(n, n + 1) for n in sorted(chosen))).groupBy(F.input_file_name())
    rows = each.agg(F.min(value), F.max(value)).collect()
    return [(low, high) for _, low, high in rows if low is not None]


def united(ranges: Sequence[Range]) -> list[Range]:
    """The same values in ranges that do not overlap, in order."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def within(ranges: Sequence[Range], order: KeyOrder) -> Column:
    """Whether the first column of ``order`` lies in one of the ranges."""
    (column,) = order.columns()
    inside = F.lit(False)
    for low, high in ranges:
        (least,), (greatest,) = order.border([low]), order.border([high])
        inside = inside | column.between(F.expr(least), F.expr(greatest))
    return inside
