"""Compares two tables without moving their rows: counts and digests by bucket, then the keys that differ.

A row's digest is two 64-bit hashes: of its typed values, or of the SHA-256 of its canonical text, whose hexadecimal
digits would take as long to parse as to compute. A bucket's digest is the sum of its rows' digests modulo 2^128. The
sum does not depend on the order, and counts equal rows (with XOR a pair would vanish).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.transform.transform import OWN, quoted
from airflow_backfill.spark.verify.canonical import canonical_row
from airflow_backfill.spark.verify.typed_hash import typed_hashes

KIND = OWN + "kind"

_SHA = OWN + "sha"
_HASHES = (OWN + "hash_0", OWN + "hash_1")
_SIDE = OWN + "side"
_LIMBS = 2 * len(_HASHES)
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


def digests(rows: DataFrame, buckets: int, key: Sequence[str] | None, by: RowHash) -> dict[int, Digest]:
    """The digest of each bucket that is not empty. Buckets are by key; without a key, by the row's digest."""
    return digests_by(digested(rows, rows.schema, by), _bucket(key, buckets))


def digests_by(rows: DataFrame, bucket: Column) -> dict[int, Digest]:
    """The digests of ``digested`` rows by ``bucket``."""
    sums = [F.sum(limb).alias(f"limb_{i}") for i, limb in enumerate(_limbs())]
    grouped = rows.groupBy(bucket.alias("bucket")).agg(F.count(F.lit(1)).alias("rows"), *sums)
    return {row["bucket"]: Digest(row["rows"], _total(row)) for row in grouped.collect()}


def compare(source: Mapping[int, Digest], target: Mapping[int, Digest]) -> list[int]:
    """The buckets that differ, in order."""
    return sorted(b for b in source.keys() | target.keys() if source.get(b) != target.get(b))


def differing_keys(
    source: DataFrame, target: DataFrame, key: Sequence[str] | None, by: RowHash, buckets: Sequence[int], of: int
) -> DataFrame:
    """The keys of these buckets that differ, each with its ``Kind`` in the column ``KIND``."""
    columns = [F.col(quoted(name)) for name in _names(key)]
    limbs = [limb.alias(f"limb_{i}") for i, limb in enumerate(_limbs())]
    sides = [
        digested(rows, rows.schema, by)
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
    counts = {Kind(row[KIND]): row["count"] for row in keys.groupBy(KIND).count().collect()}
    if key is None:
        texts = [F.concat(*(F.lpad(F.hex(name), 16, "0") for name in _HASHES)).alias("digest")]
    else:
        texts = [F.col(quoted(name)).cast("string").alias(name) for name in key]
    shown = keys.orderBy(*(F.col(quoted(name)) for name in _names(key))).limit(limit).select(KIND, *texts).collect()
    return Differences(counts, [(Kind(row[KIND]), _key_of(row)) for row in shown])


def digested(rows: DataFrame, schema: StructType, by: RowHash) -> DataFrame:
    """The rows, with the digest of the columns in ``schema`` as two more columns."""
    if by is RowHash.TYPED:
        hashes = typed_hashes(schema)
    else:
        rows = rows.withColumn(_SHA, F.sha2(canonical_row(schema).cast("binary"), 256))
        hashes = F.xxhash64(F.col(_SHA), F.lit(0)), F.xxhash64(F.col(_SHA), F.lit(1))
    return rows.withColumns(dict(zip(_HASHES, hashes, strict=True)))


def _names(key: Sequence[str] | None) -> list[str]:
    return list(key if key is not None else _HASHES)


def _bucket(key: Sequence[str] | None, of: int) -> Column:
    by = F.xxhash64(*(F.col(quoted(k)) for k in key)) if key is not None else _limbs()[0]
    return F.pmod(by, F.lit(of))


def _limbs() -> list[Column]:
    """The digest as 32-bit numbers, whose sums over two billion rows fit into a long."""
    hashes, low = [F.col(name) for name in _HASHES], F.lit((1 << _LIMB_BITS) - 1)
    return [limb for hash_ in hashes for limb in (F.shiftrightunsigned(hash_, _LIMB_BITS), hash_.bitwiseAND(low))]


def _total(row: Row) -> int:
    total = 0
    for i in range(_LIMBS):
        total = (total << _LIMB_BITS) + row[f"limb_{i}"]
    return total % _MODULUS


def _key_of(row: Row) -> dict[str, str | None]:
    values = row.asDict()
    del values[KIND]
    return values
