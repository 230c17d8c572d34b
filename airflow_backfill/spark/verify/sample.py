"""A part of two tables' keys, chosen at random, in which all rows of both are compared.

So a row that is missing, doubled or different there is found on either side. If files hold ranges of the key's first
column, the sample is some of these ranges, and only their files are read. If not, a range of one file is nearly the
whole table: then the sample is the keys with some hashes. All files are read, but few rows are compared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import KeyFiles
from airflow_backfill.spark.transform.transform import quoted

USUAL_SHARE = 0.01
MOST_RANGES = 32
"""Ranges of a side: Spark compares each with every row, and at a thousand its own stack overflows."""
MOST_PARTS = 10_000
"""Parts of a side to choose from."""
HASHES = 1_000_000
"""Groups of keys by their hash: a share is rounded up to whole groups."""
Range = tuple[Key, Key]
"""The least and the greatest value of the key's first column, both inclusive."""


def chosen_ranges(files: KeyFiles, share: float, chance: random.Random) -> list[Range]:
    """What at least this share of the files holds, chosen at random in parts of about equal bytes. Empty if a file has
    no statistics.
    """
    ranges = files.spans(min(MOST_PARTS, math.ceil(MOST_RANGES / share)))
    return chance.sample(ranges, math.ceil(share * len(ranges)))


def narrow(files: KeyFiles, ranges: Sequence[Range]) -> bool:
    """Whether a read of these ranges leaves out half of the files' bytes or more."""
    return files.share(ranges) <= 0.5


def within(ranges: Sequence[Range], order: KeyOrder) -> Column:
    """Whether the first column of ``order`` lies in one of the ranges."""
    column, inside = order.columns()[0], F.lit(False)
    for (low,), (high,) in ranges:
        inside = inside | column.between(F.expr(low), F.expr(high))
    return inside


def hashed(key: Sequence[str], share: float, seed: int) -> Column:
    """Whether the key is one of this share of all keys. Each seed chooses others."""
    group = F.pmod(F.xxhash64(F.lit(seed), *(F.col(quoted(name)) for name in key)), F.lit(HASHES))
    return group < F.lit(math.ceil(share * HASHES))
