"""The settings that every Spark session of a build sets, pins and refuses.

Five kinds: settings for Delta and for speed (``session_confs``); sizes, which follow from the work (``size_session``);
settings that change what an expression means (``SessionSettings``: read at the plan, and set again in every later
session); settings that this package's own queries depend on (``override``); and settings that lose rows without an
error (``assert_safe``). What the user sets (``--conf``, Spark's defaults file, or Hadoop's ``core-site.xml``) wins over
the first two kinds, loses against the fourth, and is refused if it differs from the other two.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import RecordInvalid, UnsafeOption
from airflow_backfill.ledger.hadoop_store import S3_LOG_STORE
from airflow_backfill.spark.session import s3_log_store
from airflow_backfill.spark.session.application_conf import application_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_FILES_PER_STATE_PARTITION = 10_000
_BYTES_PER_SHUFFLE_PARTITION = 64 << 20
_MAX_PARTITIONS = 2_000

_SHUFFLE = "spark.sql.shuffle.partitions"
_EXTENSIONS = "spark.sql.extensions"
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
TABLE_DEFAULTS = "spark.databricks.delta.properties.defaults."
"""Before the name of a property that Delta gives to every new table."""
_ANY_LOG_STORE = "spark.delta.logStore.class"
"""Delta's log store for all schemes; Delta refuses one for a single scheme beside it."""

_CATALOG = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.defaultCatalog": "spark_catalog",
}
"""Only Delta's own catalog finds and creates a table by its location."""

_HADOOP = "spark.hadoop."
"""Before the name of a setting of Hadoop."""

_DEFAULTS = {
    # The stream of S3A's own default (Hadoop 3.5) reads nothing again: a connection that is reset ends the attempt.
    f"{_HADOOP}fs.s3a.input.stream.type": "classic",
    # Work beside a round gets the next free core, and does not wait until all tasks of the round have begun.
    "spark.scheduler.mode": "FAIR",
    f"{TABLE_DEFAULTS}enableDeletionVectors": "true",
    "spark.databricks.delta.delete.deletionVectors.persistent": "true",
    "spark.databricks.delta.merge.deletionVectors.persistent": "true",
    "spark.databricks.delta.update.deletionVectors.persistent": "true",
}

_ANSI = "spark.sql.ansi.enabled"
_NOT_SET = ""
"""The value of a setting without a default."""
_PINNED = {
    "spark.sql.session.timeZone": "UTC",
    _ANSI: "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.allowHashOnMapType": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.collationAwareHashFunctions": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    "spark.sql.legacy.createEmptyCollectionUsingStringType": "false",
    "spark.sql.legacy.csv.enableDateTimeParsingFallback": _NOT_SET,
    "spark.sql.legacy.disableMapKeyNormalization": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": "true",
    "spark.sql.legacy.fromDayTimeString.enabled": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.javaCharsets": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.json.enableDateTimeParsingFallback": _NOT_SET,
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.lpadRpadAlwaysReturnString": "false",
    "spark.sql.legacy.negativeIndexInArrayInsert": "false",
    "spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv": "false",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.truncateForEmptyRegexSplit": "false",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variant.allowDuplicateKeys": "false",
    "spark.sql.variant.validateUnicodeInJsonParsing": "true",
}

_OVERRIDDEN = {
    # `${…}` in an expression, a key or a border would be replaced by a variable of the driver's environment, its Java
    # or its settings.
    "spark.sql.variable.substitute": "false",
    # Groups are found by the columns that they are named after.
    "spark.sql.retainGroupColumns": "true",
    # A build copies values as they are. Otherwise a date of 1500 in a row would end it, or be stored as another day.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # Delta reads tables with column mapping by id only with this; it changes nothing for others.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Otherwise Spark reads no VARIANT: its parts are binary.
    "spark.sql.parquet.binaryAsString": "false",
    # A build checks the columns that it reads (``core.delta.schema``). Otherwise Delta refuses a round in which others
    # are dropped, renamed or changed.
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
    # A writer may have derived partitions (CAST(ts AS DATE)) in another time zone, so that Delta would skip their rows.
    "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled": "false",
    # CHAR and VARCHAR are read as STRING, the type of the target's columns.
    "spark.sql.preserveCharVarcharTypeInfo": "false",
}

_OF_ONE_WRITE = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
"""A transaction id of the session: of all writes that have it, Delta does the first only."""

_OFF = {
    "spark.databricks.delta.autoCompact.enabled": "the rewrite after a commit would repeat its record without its rows",
    "spark.databricks.delta.optimizeWrite.enabled": "a round would shuffle its rows again, and exceed its size",
    "spark.databricks.delta.schema.autoMerge.enabled": "a new column of the source would change the target's schema",
}
_UNSAFE = _OFF | {
    "spark.sql.files.ignoreMissingFiles": "a missing data file would be read as empty",
    "spark.sql.files.ignoreCorruptFiles": "a damaged data file would be read as empty",
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": (
        "the changes of an epoch that does not exist would be read as empty"
    ),
    "spark.sql.parquet.outputTimestampType": "timestamps would be written without their microseconds",
}
_SAFE = {"spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS", "INT96")}
"""The safe values of settings that are no switches, the one to recommend first."""


def hadoop_confs(jvm: Any) -> dict[str, str]:
    """What Hadoop's own files on the driver (``core-site.xml``) say of our settings for Hadoop."""
    files = jvm.org.apache.hadoop.conf.Configuration()
    names = [name for name in _DEFAULTS if name.startswith(_HADOOP)]
    return {name: said for name in names if (said := files.get(name.removeprefix(_HADOOP))) is not None}


def session_confs(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of every application, without those that are ``given``. Delta's extension is added to given
    extensions. Other catalogs may be given, but tables are looked up in Delta's.
    """
    given = given or {}
    log_store = {} if _ANY_LOG_STORE in given else {s3_log_store.SETTING: S3_LOG_STORE}
    ours = _DEFAULTS | log_store | dict.fromkeys(_OFF, "false")
    extensions = [name.strip() for name in given.get(_EXTENSIONS, "").split(",") if name.strip()]
    added = {_EXTENSIONS: ",".join(dict.fromkeys([*extensions, _DELTA]))}
    return {name: value for name, value in ours.items() if name not in given} | added | _CATALOG | _OVERRIDDEN


def sizes(*, cores: int, table_files: int = 0, work_bytes: int = 0) -> dict[str, str]:
    """In how many tasks a table with so many files is opened, and in how many a round of so many bytes is shuffled.

    Delta rebuilds a table's state in ``snapshotPartitions`` tasks for every MERGE and for whoever reads the table, and
    Spark shuffles in 200 by default: on a small table that costs seconds.
    """
    state = min(max(1, -(-table_files // _FILES_PER_STATE_PARTITION)), 50)
    shuffle = min(max(cores, -(-work_bytes // _BYTES_PER_SHUFFLE_PARTITION)), _MAX_PARTITIONS)
    return {"spark.databricks.delta.snapshotPartitions": str(state), _SHUFFLE: str(shuffle)}


def size_session(spark: SparkSession, *, table_files: int = 0, work_bytes: int = 0) -> None:
    """Size the session for this work on the cores of the cluster. What the application was given stays."""
    conf, cores = application_conf(spark), cluster_cores(spark)
    for name, value in sizes(cores=cores, table_files=table_files, work_bytes=work_bytes).items():
        said = conf.get(name, None)
        if said is None:
            if spark.conf.get(name, None) != value:
                log.info("%s is %s (%d cores, %d files, %d bytes)", name, value, cores, table_files, work_bytes)
            spark.conf.set(name, value)
        elif said != value:
            log.info("%s stays %s, as given; by size it would be %s", name, said, value)


def cluster_cores(spark: SparkSession) -> int:
    """The cores of the cluster that the application has, or may get by dynamic allocation."""
    conf = application_conf(spark)
    most = conf.get("spark.dynamicAllocation.maxExecutors", "")
    allocated = int(most) * int(conf.get("spark.executor.cores", "1") or "1") if (most or "").isdigit() else 0
    return max(spark.sparkContext.defaultParallelism, allocated)


def override(spark: SparkSession) -> None:
    """Set what the queries of a build depend on, whatever the application was given."""
    for name, value in _OVERRIDDEN.items():
        spark.conf.set(name, value)
    for name in _OF_ONE_WRITE:
        spark.conf.unset(name)


def assert_safe(spark: SparkSession) -> None:
    """Raise UnsafeOption if the session would read missing data as empty, write less than it read, or change
    commits.
    """
    for name, consequence in _UNSAFE.items():
        safe = _SAFE.get(name, ("false",))
        value = spark.conf.get(name, safe[0]) or safe[0]
        if value.strip().lower() not in map(str.lower, safe):
            raise UnsafeOption(
                f"{name} is {value}: {consequence}; leave it out or set it to {safe[0]}", option=name, value=value
            )


def table_defaults(spark: SparkSession) -> list[str]:
    """The settings, other than ours, by which the session gives a property to every new table."""
    given = spark.conf.getAll.items()
    return sorted(f"{k} = {v}" for k, v in given if k.startswith(TABLE_DEFAULTS) and _DEFAULTS.get(k) != v)


@dataclass(frozen=True)
class SessionSettings:
    """The settings that determine what the expressions of a build mean."""

    values: Mapping[str, str]

    @staticmethod
    def read(spark: SparkSession) -> SessionSettings:
        """The settings of this session."""
        found = {name: spark.conf.get(name, None) or default for name, default in _PINNED.items()}
        # Its default depends on the environment (SPARK_ANSI_SQL_MODE).
        return SessionSettings(found | {_ANSI: spark.conf.get(_ANSI) or found[_ANSI]})

    @staticmethod
    def from_json(values: Mapping[str, str]) -> SessionSettings:
        """The settings from a plan. An older version may have pinned fewer: the others stay as the session has them.
        RecordInvalid if it pins more than this version does.
        """
        unknown = sorted(set(values) - set(_PINNED))
        if unknown:
            raise RecordInvalid(
                f"the plan pins session settings that this version of the package does not pin: {', '.join(unknown)}; "
                "expressions could change their meaning; run the version that planned, or plan again with "
                "on_existing='restart'",
                settings=unknown,
            )
        return SessionSettings(dict(values))

    def to_json(self) -> dict[str, str]:
        return dict(self.values)

    def set(self, spark: SparkSession) -> None:
        """Set the plan's settings in the session; UnsafeOption if the application was given other values."""
        override(spark)
        conf = application_conf(spark)
        for name, value in self.values.items():
            told = conf.get(name, value) or value
            if told.lower() != value.lower():
                same = f" or set it to {value}" if value else ""
                raise UnsafeOption(
                    f"{name} is {told}, and {value or 'not set'} in the plan: the same expression could mean something "
                    f"else; leave the setting out{same}, or plan again with on_existing='restart'",
                    option=name,
                    value=told,
                )
            if value:
                spark.conf.set(name, value)
