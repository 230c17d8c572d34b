"""A part of two tables' keys, chosen at random, in which all rows of both are compared.

So a row that is missing, doubled or different there is found on either side. If files hold ranges of the key's first
column, the sample is the ranges of some files, and only files of these ranges are read. If not, such a range is nearly
the whole table: then the sample is the keys with some hashes. All files are read, but few rows are compared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import KeyFiles, VersionFiles
from airflow_backfill.spark.transform.transform import quoted

USUAL_SHARE = 0.01
HASHES = 1_000_000
"""Groups of keys by their hash: a share is rounded up to whole groups."""
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


def narrow(files: KeyFiles, order: KeyOrder, ranges: Sequence[Range]) -> bool:
    """Whether a read of these ranges of the first column of ``order`` leaves out half of the files' bytes or more."""
    return files.share([(order.border([low]), order.border([high])) for low, high in ranges]) <= 0.5


def hashed(key: Sequence[str], share: float, seed: int) -> Column:
    """Whether the key is one of this share of all keys. Each seed chooses others."""
    chosen = F.pmod(F.xxhash64(F.lit(seed), *(F.col(quoted(name)) for name in key)), F.lit(HASHES))
    return chosen < F.lit(-int(-share * HASHES // 1))


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
