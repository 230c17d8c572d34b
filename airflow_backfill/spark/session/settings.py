"""What every Spark session of a build sets, pins and refuses.

Four kinds of settings: those that make Delta work and keep small work small (``session_confs``), those that change
what an expression means (``SessionSettings``: read once, at plan time, and set again in every later session), the one
that would replace parts of its text (``read_as_written``), and those that would trade rows for silence
(``assert_safe``). What the user gave (``--conf``, or Spark's file of defaults) wins over the first kind, and is refused
where it differs from the second and the last.
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

_EXTENSIONS = "spark.sql.extensions"
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_SUBSTITUTION = "spark.sql.variable.substitute"

_DEFAULTS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # What is done beside a round gets a core that becomes free, and does not wait until all tasks of that have begun.
    "spark.scheduler.mode": "FAIR",
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

_OFF = {
    "spark.databricks.delta.autoCompact.enabled": "the rewrite after a commit would carry its record without its rows",
    "spark.databricks.delta.optimizeWrite.enabled": "a round would shuffle its rows again, whatever it was sized for",
    "spark.databricks.delta.schema.autoMerge.enabled": "a new column of the source would change the target unasked",
}
_UNSAFE = _OFF | {
    "spark.sql.files.ignoreMissingFiles": "a data file that is gone would be read as empty",
    "spark.sql.files.ignoreCorruptFiles": "a damaged data file would be read as empty",
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": (
        "the changes of an epoch that does not exist would be read as empty"
    ),
}


def session_confs(
    *, cores: int, table_files: int = 0, work_bytes: int = 0, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The confs every application sets beside those that were ``given``, sized to the table (its files) and to a round
    of work (its bytes). Extensions are added to.

    Delta rebuilds a table's state in ``snapshotPartitions`` tasks for every commit with a transaction id, and
    Spark shuffles in 200: on a small table that alone costs seconds.
    """
    given = given or {}
    state = min(max(1, -(-table_files // _FILES_PER_STATE_PARTITION)), 50)
    shuffle = min(max(cores, -(-work_bytes // _BYTES_PER_SHUFFLE_PARTITION)), _MAX_PARTITIONS)
    ours = _DEFAULTS | dict.fromkeys(_OFF, "false")
    ours |= {"spark.databricks.delta.snapshotPartitions": str(state), "spark.sql.shuffle.partitions": str(shuffle)}
    extensions = [name.strip() for name in given.get(_EXTENSIONS, "").split(",") if name.strip()]
    added = {_EXTENSIONS: ",".join(dict.fromkeys([*extensions, _DELTA])), _SUBSTITUTION: "false"}
    return {name: value for name, value in ours.items() if name not in given} | added


def read_as_written(spark: SparkSession) -> None:
    """Let ``${…}`` in a text be nothing but that text, in every expression, key and border that the session reads.

    Spark would replace it by what the driver's environment, its Java or its settings say under that name.
    """
    spark.conf.set(_SUBSTITUTION, "false")


def assert_safe(spark: SparkSession) -> None:
    """Raise UnsafeOption if the session would read something missing as something empty, or commit what was not asked
    for.
    """
    for name, consequence in _UNSAFE.items():
        value = spark.conf.get(name, "false") or "false"
        if value.strip().lower() != "false":
            raise UnsafeOption(
                f"{name} is {value}: {consequence}; leave it out or set it to false", option=name, value=value
            )


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
            raise RecordInvalid(
                f"the plan pins other session settings than this version of the package: {', '.join(odd)}; run "
                "the version "
                "that planned, or plan again with on_existing='restart'",
                settings=odd,
            )
        return SessionSettings(dict(values))

    def to_json(self) -> dict[str, str]:
        return dict(self.values)

    def set(self, spark: SparkSession) -> None:
        """Make the session mean what the plan meant, whatever its defaults are; UnsafeOption if Spark was told
        otherwise.
        """
        read_as_written(spark)
        given = spark.sparkContext.getConf()
        for name, value in self.values.items():
            told = given.get(name, value) or value
            if told.lower() != value.lower():
                raise UnsafeOption(
                    f"{name} is {told}, and {value} in the plan: the same expression could mean something else; leave "
                    f"it out or set it to {value}, or plan again with on_existing='restart'",
                    option=name,
                    value=told,
                )
            spark.conf.set(name, value)
