"""Checks of a source table before a build begins. Each raises its coded error; none writes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DuplicateKey, KeyInvalid, KeyNull
from airflow_backfill.core.kafka.topic_retention import TopicExpiry
from airflow_backfill.core.model.plan import SourceFacts
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import open_source as open_log
from airflow_backfill.spark.digest.canonical import check_canonical
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.settings import assert_safe, size_session
from airflow_backfill.spark.session.temporary_settings import settings_for
from airflow_backfill.spark.source.changes import sample_of
from airflow_backfill.spark.source.key_groups import GROUP_BYTES, MANY_KEYS, KeyGroups
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import DataFile
from airflow_backfill.spark.transform.transform import Transform, parse, quoted, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = 5
RECENT_EPOCHS = 200
"""Epochs of the source to read for its change rate, and for whether it only adds rows."""


FROM_FILES = {"spark.databricks.delta.optimizeMetadataQuery.enabled": "false"}
"""Otherwise Delta counts a column without nulls by the log alone."""


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """A source that passed the checks, at the epoch to pin."""

    spec: BackfillSpec
    source: SourceFacts
    retention: Retention
    at: int
    """When the epoch was pinned, milliseconds since 1970."""
    transform: Transform
    target_key: tuple[str, ...]
    recent: Sequence[Epoch]
    """The source's last epochs up to this one, oldest first."""
    parts: int
    """Number of parts to read: files, or partitions of a topic."""
    units: int
    """Number of units that a round cannot divide: files, or records of a topic."""
    bytes: int
    rows: int | None
    """None if a file has no row count."""
    files: Sequence[DataFile] = ()
    """The data files of the epoch; empty for a topic."""
    partitions: Partitions | None = None
    """The partitions of a topic to pin."""
    expiry: TopicExpiry | None = None
    """How long a topic keeps its history."""

    @property
    def epoch(self) -> int:
        return self.source.epoch


STEPS = (
    "no setting of the session loses rows",
    "the source is a table that can be followed",
    "select and where are allowed",
    "the key is selected unchanged",
    "every data file can be read, and the key is unique",
)
"""What ``inspect_source`` checks, in its order."""


def inspect_source(
    spark: SparkSession, spec: BackfillSpec, begins: Callable[[str], None] = lambda step: None
) -> Preflight:
    """Check the source and the expressions at the source's newest epoch. ``begins`` is told each of ``STEPS``."""
    begins(STEPS[0])
    assert_safe(spark)
    begins(STEPS[1])
    log = open_log(spec.table, spark)
    at, admitted = now_ms(), log.admit(spec)
    epoch, schema = admitted.facts.epoch, schema_of(admitted.facts.schema_json)
    if not schema.fields:
        raise KeyInvalid("the source has no columns, so a key cannot name one; check source, then clear the task")
    begins(STEPS[2])
    transform = parse(spark, schema, spec.select, spec.where, spec.functions)
    check_canonical(transform.schema)
    begins(STEPS[3])
    key = transform.target_key(spec.key)
    if spec.proof is ProofKind.SAMPLED:
        KeyOrder.of(schema, spec.key[:1])
    begins(STEPS[4])
    source = open_source(spark, spec.table)
    recent = log.recent(epoch, RECENT_EPOCHS)
    files = source.files(epoch).files
    counts = [file.rows for file in files if file.rows is not None]
    used = tuple(name for name in transform.source_schema.fieldNames() if name in transform.uses)
    found = Preflight(
        spec=spec,
        source=admitted.facts if spec.select is None else replace(admitted.facts, columns=used),
        retention=admitted.retention,
        at=at,
        transform=transform,
        target_key=key,
        recent=recent,
        parts=len(files),
        units=len(files),
        bytes=sum(file.size for file in files),
        rows=sum(counts) if len(counts) == len(files) else None,
        files=files,
    )
    hashes = GROUP_BYTES * found.rows if found.rows is not None else found.bytes
    size_session(spark, table_files=len(found.files), work_bytes=hashes)
    rows = source.at(epoch)
    with lost_history_named():
        # Opens every data file, so a missing one is found now and not after hours.
        if spec.key:
            check_keys(found, rows)
        else:
            with settings_for(spark, FROM_FILES):
                rows.agg(F.count(F.col(quoted(schema.fieldNames()[0])))).collect()
    return found


def check_keys(found: Preflight, rows: DataFrame) -> None:
    """KeyNull or DuplicateKey, with count and sample, unless the key identifies every row of the source.

    Rows outside the filter count too: an update can bring them in. The key columns are read once if no check fails.
    """
    groups = KeyGroups.of(rows, found.spec.key, found.rows is None or found.rows >= MANY_KEYS)
    counted = groups.count()
    if counted.nameless:
        sample = sample_of(groups.nameless(), SAMPLE)
        raise KeyNull(
            f"{counted.nameless} rows have no key, for example {sample[0]}; a key must identify every row; give them "
            "one in the source, or delete them there, then clear the task",
            count=counted.nameless,
            sample=sample,
        )
    if not counted.repeated:
        return
    twins = groups.repeated()
    count = twins.count()
    if count:
        sample = sample_of(twins, SAMPLE)
        raise DuplicateKey(
            f"{count} keys have several rows, for example {sample[0]}; a key must identify one row; delete all rows "
            "but one of each key in the source, or name more key columns, then clear the task",
            count=count,
            sample=sample,
        )
