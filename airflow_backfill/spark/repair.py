"""The rows that make a target equal to its transformed source again, for the keys that differ and for no others.

Of such a key every row of the target goes, however many there are, and what the source says comes. Both are in one
MERGE: a row that goes carries ``DELETE`` and matches by key, one that comes carries ``UPSERT`` and matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DuplicateKey
from airflow_backfill.spark.net_change import DELETE, OP, UPSERT, shown
from airflow_backfill.spark.proof import Proof
from airflow_backfill.spark.repeated_keys import RECOVER, SAMPLE
from airflow_backfill.spark.staged import held
from airflow_backfill.spark.transform import quoted


@contextmanager
def rewrites(proof: Proof, epoch: int, version: int) -> Iterator[DataFrame]:
    """The target's columns and ``OP``; empty if version ``version`` is what the source says at ``epoch``. Raises
    DuplicateKey if that says several rows of one key.
    """
    names = proof.transform.schema.fieldNames()
    key = proof.transform.target_key(proof.plan.spec.key)
    with proof.differing_keys(epoch, version, proof.unequal(epoch, version)) as keys:
        expected, on = proof.expected(epoch), F.lit(True)
        for name in key:
            on = on & expected[quoted(name)].eqNullSafe(keys[quoted(name)])
        comes = expected.join(keys, on, "left_semi")
        nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in proof.transform.schema if f.name not in key]
        goes = keys.select(*(F.col(quoted(name)) for name in key), *nothing)
        columns = [F.col(quoted(name)) for name in names]
        rows = goes.select(*columns, F.lit(DELETE).alias(OP)).union(comes.select(*columns, F.lit(UPSERT).alias(OP)))
        with held(rows) as staged:
            _check_repeated(staged, key, epoch)
            yield staged


def _check_repeated(rows: DataFrame, key: Sequence[str], epoch: int) -> None:
    """Raise DuplicateKey if a key comes twice: the next change of it could not tell its rows apart."""
    columns = [F.col(quoted(name)) for name in key]
    twins = rows.where(F.col(OP) == UPSERT).groupBy(*columns).count().where("count > 1").drop("count")
    if sample := [shown(row) for row in twins.limit(SAMPLE).collect()]:
        raise DuplicateKey(
            f"the source has several rows of one key at epoch {epoch}, for example {sample}: nothing is repaired; "
            f"delete all rows but one of each key in the source, then say that the target stands at the epoch of that "
            f"delete ({RECOVER} --epoch), verify, and repair again",
            epoch=epoch,
            sample=sample,
        )
