"""The rows that make a target equal to its transformed source again. Only keys that differ are rewritten.

All rows of such a key are removed from the target, and the source's row is added. One MERGE does both: a ``DELETE`` row
matches by key, and an ``UPSERT`` row matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DuplicateKey, KeyNull
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.changes import sample_of
from airflow_backfill.spark.target_table.net_change import DELETE, OP, UPSERT
from airflow_backfill.spark.target_table.repeated_keys import SAMPLE
from airflow_backfill.spark.transform.transform import OWN, any_missing, quoted
from airflow_backfill.spark.verify.proof import Proof

_ROWS = OWN + "rows"


@contextmanager
def rewrites(proof: Proof, epoch: int, version: int) -> Iterator[DataFrame]:
    """Rows with the target's columns and ``OP``. Empty if version ``version`` equals the source at ``epoch``. Raises
    DuplicateKey if the source has several rows of a key there, KeyNull if it has a row without a key.
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
            _check_keys(staged, key, epoch)
            yield staged


def _check_keys(rows: DataFrame, key: Sequence[str], epoch: int) -> None:
    """Raise KeyNull or DuplicateKey if a later change could not identify an added row."""
    columns = [F.col(quoted(name)) for name in key]
    counted = rows.where(F.col(OP) == UPSERT).groupBy(*columns).agg(F.count(F.lit(1)).alias(_ROWS))
    sample = sample_of(counted.where((F.col(_ROWS) > 1) | any_missing(columns)).drop(_ROWS), SAMPLE)
    if not sample:
        return
    nameless = any(None in one.values() for one in sample)
    kind, what = (KeyNull, "rows without a key") if nameless else (DuplicateKey, "several rows of one key")
    raise kind(
        f"the source has {what} at epoch {epoch}, for example {sample}, so nothing is repaired: later changes could "
        "not identify these rows; correct them in the source, run `table-backfill recover TARGET --epoch N --why "
        "REASON` with the epoch of that commit, verify, and repair again",
        epoch=epoch,
        sample=sample,
    )
