"""The digests of rows, computed by Spark.

A row's digest is two 64-bit hashes: of its typed values, or of the SHA-256 of its canonical text, whose hexadecimal
digits would take as long to parse as to compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.core.values.digest import MODULUS, Digest
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.digest.canonical import canonical_row
from airflow_backfill.spark.digest.typed_hash import typed_hashes
from airflow_backfill.spark.transform.transform import OWN, quoted

HASHES = (OWN + "hash_0", OWN + "hash_1")
"""The columns that hold the digest of a row."""

_SHA = OWN + "sha"
_ROWS = OWN + "rows"
LIMBS = tuple(f"{OWN}limb_{i}" for i in range(2 * len(HASHES)))
_LIMB_BITS = 32


def digests(rows: DataFrame, buckets: int, key: Sequence[str] | None, by: RowHash) -> dict[int, Digest]:
    """The digest of each bucket that is not empty. Buckets are by key; without a key, by the row's digest."""
    return digests_by(digested(rows, rows.schema, by), bucket(key, buckets))


def digests_by(rows: DataFrame, group: Column) -> dict[int, Digest]:
    """The digests of ``digested`` rows by ``group``."""
    grouped = rows.groupBy(group.alias("group")).agg(*sums())
    return {row["group"]: digest_of(row) for row in grouped.collect()}


def digested(rows: DataFrame, schema: StructType, by: RowHash) -> DataFrame:
    """The rows, with the digest of the columns in ``schema`` as two more columns."""
    if by is RowHash.TYPED:
        hashes = typed_hashes([(F.col(quoted(field.name)), field.dataType) for field in schema.fields])
    else:
        rows = rows.withColumn(_SHA, F.sha2(canonical_row(schema).cast("binary"), 256))
        hashes = F.xxhash64(F.col(_SHA), F.lit(0)), F.xxhash64(F.col(_SHA), F.lit(1))
    return rows.withColumns(dict(zip(HASHES, hashes, strict=True)))


def sums(of: Sequence[Column] | None = None) -> list[Column]:
    """Aggregates from which ``digest_of`` makes the digest of all ``digested`` rows whose digest is not null.

    ``of``: the ``limbs`` if they are columns.
    """
    columns = [F.sum(limb).alias(name) for name, limb in zip(LIMBS, of or limbs(), strict=True)]
    return [F.count(F.col(HASHES[0])).alias(_ROWS), *columns]


def digest_of(found: Row | Mapping[str, Any]) -> Digest:
    """The digest in the result of ``sums``."""
    total = 0
    for name in LIMBS:
        total = (total << _LIMB_BITS) + (found[name] or 0)
    return Digest(found[_ROWS], total % MODULUS)


def bucket(key: Sequence[str] | None, of: int) -> Column:
    """The bucket of a ``digested`` row, from 0."""
    by = F.xxhash64(*(F.col(quoted(k)) for k in key)) if key is not None else limbs()[0]
    return F.pmod(by, F.lit(of))


def limbs() -> list[Column]:
    """The digest of a row as 32-bit numbers, whose sums over two billion rows fit into a long."""
    hashes, low = [F.col(name) for name in HASHES], F.lit((1 << _LIMB_BITS) - 1)
    return [limb for hash_ in hashes for limb in (F.shiftrightunsigned(hash_, _LIMB_BITS), hash_.bitwiseAND(low))]
