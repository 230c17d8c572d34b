"""What every Spark session of a build sets, pins and refuses.

Three kinds of settings: those that make Delta work and keep small work small (``session_confs``), those that change
what an expression means (``SessionSettings``: read once, at plan time, and set again in every later session), and
those that would trade rows for silence (``assert_safe``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import RecordInvalid, UnsafeOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_PER_STATE_PARTITION = 10_000
_BYTES_PER_SHUFFLE_PARTITION = 64 << 20
_MAX_PARTITIONS = 2_000

_ALWAYS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # What is done beside a round gets a core that becomes free, and does not wait until all tasks of that have begun.
    "spark.scheduler.mode": "FAIR",
    # A commit that a background rewrite adds would carry our record without our rows.
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.databricks.delta.optimizeWrite.enabled": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.delete.deletionVectors.persistent": "true",
    "spark.databricks.delta.merge.deletionVectors.persistent": "true",
    "spark.databricks.delta.update.deletionVectors.persistent": "true",
}

_PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}

_UNSAFE = {
    "spark.sql.files.ignoreMissingFiles": "a data file that is gone would be read as empty",
    "spark.sql.files.ignoreCorruptFiles": "a damaged data file would be read as empty",
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": (
        "the changes of an epoch that does not exist would be read as empty"
    ),
}


def session_confs(*, cores: int, table_files: int = 0, work_bytes: int = 0) -> dict[str, str]:
    """The confs every application sets, sized to the table (its files) and to a round of work (its bytes).

    Delta rebuilds a table's state in ``snapshotPartitions`` tasks for every commit with a transaction id, and
    Spark shuffles in 200: on a small table that alone costs seconds.
    """
    state = min(max(1, -(-table_files // _FILES_PER_STATE_PARTITION)), 50)
    shuffle = min(max(cores, -(-work_bytes // _BYTES_PER_SHUFFLE_PARTITION)), _MAX_PARTITIONS)
    return _ALWAYS | {
        "spark.databricks.delta.snapshotPartitions": str(state),
        "spark.sql.shuffle.partitions": str(shuffle),
    }


def assert_safe(spark: SparkSession) -> None:
    """Raise UnsafeOption if the session would read something missing as something empty."""
    for name, consequence in _UNSAFE.items():
        value = spark.conf.get(name, "false") or "false"
        if value.strip().lower() != "false":
            raise UnsafeOption(f"{name} is on: {consequence}; switch it off", option=name, value=value)


@dataclass(frozen=True)
class SessionSettings:
    """The settings under which the expressions of a build mean what they mean."""

    values: Mapping[str, str]

    @staticmethod
    def read(spark: SparkSession) -> SessionSettings:
        """The settings as a session has them."""
        return SessionSettings({name: spark.conf.get(name, default) or default for name, default in _PINNED.items()})

    @staticmethod
    def from_json(values: Mapping[str, str]) -> SessionSettings:
        """Settings that were stored; RecordInvalid unless they are exactly those that are pinned."""
        if set(values) != set(_PINNED):
            odd = sorted(set(values) ^ set(_PINNED))
            raise RecordInvalid(f"the stored session settings are not the ones that are pinned: {odd}", settings=odd)
        return SessionSettings(dict(values))

    def to_json(self) -> dict[str, str]:
        return dict(self.values)

    def set(self, spark: SparkSession) -> None:
        """Make the session mean what the plan meant, whatever its defaults are."""
        for name, value in self.values.items():
            spark.conf.set(name, value)
