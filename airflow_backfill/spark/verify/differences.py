"""Which buckets of two sides differ, and which keys in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from airflow_backfill.core.values.digest import Digest
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.digest.digest import HASHES, bucket, digested, limbs
from airflow_backfill.spark.session.redaction import shown
from airflow_backfill.spark.transform.transform import OWN, quoted

KIND = OWN + "kind"

_SIDE = OWN + "side"


class Kind(str, Enum):
    """How a key of the target differs."""

    MISSING = "missing"
    """The source has more rows of it."""
    EXTRA = "extra"
    """The target has more rows of it."""
    STALE = "stale"
    """Both have as many rows of it, with different values."""


@dataclass(frozen=True)
class Differences:
    """Number of keys that differ, and a sample of them. Without a key, a row's digest takes its place."""

    counts: Mapping[Kind, int]
    sample: Sequence[tuple[Kind, Mapping[str, str | None]]]


def compare(source: Mapping[int, Digest], target: Mapping[int, Digest]) -> list[int]:
    """The buckets that differ, in order."""
    return sorted(b for b in source.keys() | target.keys() if source.get(b) != target.get(b))


def differing_keys(
    source: DataFrame, target: DataFrame, key: Sequence[str] | None, by: RowHash, buckets: Sequence[int], of: int
) -> DataFrame:
    """The keys of these buckets that differ, each with its ``Kind`` in the column ``KIND``."""
    columns = [F.col(quoted(name)) for name in _names(key)]
    numbers = [limb.alias(f"limb_{i}") for i, limb in enumerate(limbs())]
    sides = [
        digested(rows, rows.schema, by)
        .where(bucket(key, of).isin(*buckets))
        .select(*columns, *numbers, F.lit(side).alias(_SIDE))
        for side, rows in enumerate((source, target))
    ]
    in_source, in_target = F.count_if(F.col(_SIDE) == 0), F.count_if(F.col(_SIDE) == 1)
    sign = F.lit(1) - 2 * F.col(_SIDE)
    unequal = F.lit(False)
    for i in range(len(numbers)):
        unequal = unequal | (F.sum(F.col(f"limb_{i}") * sign) != 0)
    kind = (
        F.when(in_source > in_target, Kind.MISSING.value)
        .when(in_source < in_target, Kind.EXTRA.value)
        .when(unequal, Kind.STALE.value)
    )
    return sides[0].union(sides[1]).groupBy(*columns).agg(kind.alias(KIND)).where(F.col(KIND).isNotNull())


def differences(keys: DataFrame, key: Sequence[str] | None, limit: int) -> Differences:
    """The counts of ``differing_keys``, and the first ``limit`` keys. Reads ``keys`` twice."""
    counts = {Kind(row[KIND]): row["count"] for row in keys.groupBy(KIND).count().collect()}
    if key is None:
        texts = [F.concat(*(F.lpad(F.hex(name), 16, "0") for name in HASHES)).alias("digest")]
    else:
        texts = [F.col(quoted(name)).cast("string").alias(name) for name in key]
    first = keys.orderBy(*(F.col(quoted(name)) for name in _names(key))).limit(limit).select(KIND, *texts).collect()
    return Differences(counts, [(Kind(row[KIND]), _key_of(row)) for row in first])


def _names(key: Sequence[str] | None) -> list[str]:
    return list(key if key is not None else HASHES)


def _key_of(row: Row) -> dict[str, str | None]:
    return {name: shown(value) for name, value in row.asDict().items() if name != KIND}
