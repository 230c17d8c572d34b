"""Compares two tables without moving their rows: counts and digests by bucket, then the keys that differ.

A row's digest is the SHA-256 of its canonical text, folded to 128 bits by two 64-bit hashes: parsing its hexadecimal
digits would take as long as the SHA-256 itself. A bucket's digest is the sum of its rows' digests modulo 2^128. The sum
does not depend on the order, and counts equal rows (with XOR a pair would vanish).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.spark.transform.transform import OWN, quoted
from airflow_backfill.spark.verify.canonical import canonical_row

KIND = OWN + "kind"

_DIGEST = OWN + "digest"
_SIDE = OWN + "side"
_SEEDS = (0, 1)
_LIMBS = 2 * len(_SEEDS)
_LIMB_BITS = 32
_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Digest:
    """The content of a bucket: number of rows, and the sum of their digests."""

    rows: int
    total: int

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.total + other.total) % _MODULUS)


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


def digests(rows: DataFrame, buckets: int, key: Sequence[str] | None) -> dict[int, Digest]:
    """The digest of each bucket that is not empty. Buckets are by key; without a key, by the row's digest."""
    return digests_by(digested(rows, rows.schema), _bucket(key, buckets))


def digests_by(rows: DataFrame, bucket: Column) -> dict[int, Digest]:
    """The digests of ``digested`` rows by ``bucket``."""
    sums = [F.sum(limb).alias(f"limb_{i}") for i, limb in enumerate(_limbs())]
    grouped = rows.groupBy(bucket.alias("bucket")).agg(F.count(F.lit(1)).alias("rows"), *sums)
    return {row["bucket"]: Digest(row["rows"], _total(row)) for row in grouped.collect()}


def compare(source: Mapping[int, Digest], target: Mapping[int, Digest]) -> list[int]:
    """The buckets that differ, in order."""
    return sorted(b for b in source.keys() | target.keys() if source.get(b) != target.get(b))


def differing_keys(
    source: DataFrame, target: DataFrame, key: Sequence[str] | None, buckets: Sequence[int], of: int
) -> DataFrame:
    """The keys of these buckets that differ, each with its ``Kind`` in the column ``KIND``."""
    columns = [F.col(quoted(name)) for name in _names(key)]
    limbs = [limb.alias(f"limb_{i}") for i, limb in enumerate(_limbs())]
    sides = [
        digested(rows, rows.schema)
        .where(_bucket(key, of).isin(*buckets))
        .select(*columns, *limbs, F.lit(side).alias(_SIDE))
        for side, rows in enumerate((source, target))
    ]
    in_source, in_target = F.count_if(F.col(_SIDE) == 0), F.count_if(F.col(_SIDE) == 1)
    sign = F.lit(1) - 2 * F.col(_SIDE)
    unequal = F.lit(False)
    for i in range(_LIMBS):
        unequal = unequal | (F.sum(F.col(f"limb_{i}") * sign) != 0)
    kind = (
        F.when(in_source > in_target, Kind.MISSING.value)
        .when(in_source < in_target, Kind.EXTRA.value)
        .when(unequal, Kind.STALE.value)
    )
    return sides[0].union(sides[1]).groupBy(*columns).agg(kind.alias(KIND)).where(F.col(KIND).isNotNull())


def differences(keys: DataFrame, key: Sequence[str] | None, limit: int) -> Differences:
    """The counts of ``differing_keys``, and the first ``limit`` keys. Reads ``keys`` twice."""
    names = _names(key)
    counts = {Kind(row[KIND]): row["count"] for row in keys.groupBy(KIND).count().collect()}
    texts = [F.col(quoted(name)).cast("string").alias(name) for name in names]
    shown = keys.orderBy(*(F.col(quoted(name)) for name in names)).limit(limit).select(KIND, *texts).collect()
    return Differences(counts, [(Kind(row[KIND]), _key_of(row)) for row in shown])


def digested(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows, with a column for the digest of the columns in ``schema``."""
    return rows.withColumn(_DIGEST, F.sha2(canonical_row(schema).cast("binary"), 256))


def _names(key: Sequence[str] | None) -> list[str]:
    return list(key) if key is not None else [_DIGEST]


def _bucket(key: Sequence[str] | None, of: int) -> Column:
    by = F.xxhash64(*(F.col(quoted(k)) for k in key)) if key is not None else _limbs()[0]
    return F.pmod(by, F.lit(of))


def _limbs() -> list[Column]:
    """The digest as 32-bit numbers, whose sums over two billion rows fit into a long."""
    halves = [F.xxhash64(F.col(_DIGEST), F.lit(seed)) for seed in _SEEDS]
    low = F.lit((1 << _LIMB_BITS) - 1)
    return [limb for half in halves for limb in (F.shiftrightunsigned(half, _LIMB_BITS), half.bitwiseAND(low))]


def _total(row: Row) -> int:
    total = 0
    for i in range(_LIMBS):
        total = (total << _LIMB_BITS) + row[f"limb_{i}"]
    return total % _MODULUS


def _key_of(row: Row) -> dict[str, str | None]:
    values = row.asDict()
    del values[KIND]
    return {"digest" if name == _DIGEST else name: value for name, value in values.items()}
