"""Settings of Spark and Delta that real sites have, a few drawn for each seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from airflow_backfill.spark.session.application_conf import application_conf

Settings = dict[str, str]
OFF, ON = "false", "true"
SWITCH = (OFF, ON)

MEANING: Mapping[str, tuple[str, ...]] = {
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kolkata", "+05:45"),
    "spark.sql.ansi.enabled": SWITCH,
    "spark.sql.ansi.doubleQuotedIdentifiers": SWITCH,
    "spark.sql.ansi.enforceReservedKeywords": SWITCH,
    "spark.sql.caseSensitive": SWITCH,
    "spark.sql.decimalOperations.allowPrecisionLoss": SWITCH,
    "spark.sql.legacy.allowNegativeScaleOfDecimal": SWITCH,
    "spark.sql.legacy.castComplexTypesToString.enabled": SWITCH,
    "spark.sql.legacy.charVarcharAsString": SWITCH,
    "spark.sql.legacy.literal.pickMinimumPrecision": SWITCH,
    "spark.sql.legacy.sizeOfNull": SWITCH,
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark.sql.mapKeyDedupPolicy": ("EXCEPTION", "LAST_WIN"),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInRead": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark.sql.parser.escapedStringLiterals": SWITCH,
    "spark.sql.readSideCharPadding": SWITCH,
    "spark.sql.legacy.noCharPaddingInPredicate": SWITCH,
    "spark.sql.storeAssignmentPolicy": ("ANSI", "LEGACY", "STRICT"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.binaryOutputStyle": ("BASE64", "HEX"),
    "spark.sql.legacy.setopsPrecedence.enabled": SWITCH,
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": SWITCH,
    "spark.sql.json.enablePartialResults": SWITCH,
    "spark.sql.chunkBase64String.enabled": SWITCH,
    "spark.sql.legacy.lpadRpadAlwaysReturnString": SWITCH,
    "spark.sql.jsonGenerator.ignoreNullFields": SWITCH,
    "spark.sql.legacy.allowHashOnMapType": SWITCH,
    "spark.sql.legacy.disableMapKeyNormalization": SWITCH,
}
"""What an expression means. The oracle is told them, too."""

_DEFAULT = "spark.databricks.delta.properties.defaults."
COST: Mapping[str, tuple[str, ...]] = {
    "spark.sql.adaptive.enabled": SWITCH,
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": ("1k", "1g"),
    "spark.sql.adaptive.coalescePartitions.enabled": SWITCH,
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": ("100",),
    "spark.sql.adaptive.forceOptimizeSkewedJoin": SWITCH,
    "spark.sql.adaptive.autoBroadcastJoinThreshold": ("-1", "1g"),
    "spark.sql.adaptive.localShuffleReader.enabled": SWITCH,
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "1g"),
    "spark.sql.bloomFilterJoin.enabled": SWITCH,
    "spark.sql.optimizer.runtime.bloomFilter.enabled": SWITCH,
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": ("0",),
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
        "org.apache.spark.sql.catalyst.optimizer.CollapseProject",
        "org.apache.spark.sql.catalyst.optimizer.ColumnPruning",
    ),
    "spark.sql.shuffle.partitions": ("1", "200"),
    "spark.sql.join.preferSortMergeJoin": SWITCH,
    "spark.sql.codegen.wholeStage": SWITCH,
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "CODEGEN_ONLY", "FALLBACK"),
    "spark.sql.codegen.maxFields": ("5",),
    "spark.sql.parquet.enableVectorizedReader": SWITCH,
    "spark.sql.parquet.enableNestedColumnVectorizedReader": SWITCH,
    "spark.sql.optimizer.nestedSchemaPruning.enabled": SWITCH,
    "spark.sql.parquet.columnarReaderBatchSize": ("7",),
    "spark.sql.inMemoryColumnarStorage.batchSize": ("3",),
    "spark.sql.inMemoryColumnarStorage.enableVectorizedReader": SWITCH,
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MICROS"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInWrite": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark.sql.parquet.int96TimestampConversion": SWITCH,
    "spark.sql.parquet.int96AsTimestamp": SWITCH,
    "spark.sql.parquet.binaryAsString": SWITCH,
    "spark.sql.parquet.writeLegacyFormat": SWITCH,
    "spark.sql.parquet.inferTimestampNTZ.enabled": SWITCH,
    "spark.sql.parquet.fieldId.read.enabled": SWITCH,
    "spark.sql.parquet.filterPushdown": SWITCH,
    "spark.sql.parquet.filterPushdown.string.startsWith": SWITCH,
    "spark.sql.parquet.recordLevelFilter.enabled": SWITCH,
    "spark.sql.parquet.aggregatePushdown": SWITCH,
    "spark.sql.parquet.compression.codec": ("none", "gzip", "zstd"),
    "spark.sql.parquet.mergeSchema": SWITCH,
    "spark.sql.files.maxPartitionBytes": ("1000", "1g"),
    "spark.sql.files.openCostInBytes": ("1",),
    "spark.sql.files.maxRecordsPerFile": ("7",),
    "spark.sql.files.minPartitionNum": ("40",),
    "spark.sql.sources.bucketing.enabled": SWITCH,
    "spark.sql.sources.partitionColumnTypeInference.enabled": SWITCH,
    "spark.sql.sources.partitionOverwriteMode": ("dynamic", "static"),
    "spark.sql.sources.default": ("json", "delta"),
    "spark.sql.sources.useV1SourceList": ("", "avro,csv,json,kafka,orc,parquet,text"),
    "spark.sql.subquery.reuse": SWITCH,
    "spark.sql.exchange.reuse": SWITCH,
    "spark.sql.constraintPropagation.enabled": SWITCH,
    "spark.sql.cbo.enabled": SWITCH,
    "spark.sql.crossJoin.enabled": SWITCH,
    "spark.sql.selfJoinAutoResolveAmbiguity": SWITCH,
    "spark.sql.analyzer.failAmbiguousSelfJoin": SWITCH,
    "spark.sql.retainGroupColumns": SWITCH,
    "spark.sql.groupByOrdinal": SWITCH,
    "spark.sql.orderByOrdinal": SWITCH,
    "spark.sql.groupByAliases": SWITCH,
    "spark.sql.execution.arrow.pyspark.enabled": SWITCH,
    "spark.sql.execution.useObjectHashAggregateExec": SWITCH,
    "spark.sql.execution.rangeExchange.sampleSizePerPartition": ("1",),
    "spark.sql.execution.sortBeforeRepartition": SWITCH,
    "spark.sql.maxMetadataStringLength": ("4",),
    "spark.sql.debug.maxToStringFields": ("1",),
    "spark.sql.redaction.string.regex": (".*",),
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": SWITCH,
    "spark.sql.limit.initialNumPartitions": ("7",),
    "spark.sql.broadcastTimeout": ("20",),
    "spark.sql.repl.eagerEval.enabled": SWITCH,
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": SWITCH,
    "spark.sql.statistics.size.autoUpdate.enabled": SWITCH,
    "spark.sql.statistics.fallBackToHdfs": SWITCH,
    "spark.sql.pyspark.jvmStacktrace.enabled": SWITCH,
    "spark.speculation": SWITCH,
    "spark.databricks.delta.stats.collect": SWITCH,
    "spark.databricks.delta.stats.skipping": SWITCH,
    "spark.databricks.delta.stats.localCache.maxNumFiles": ("0",),
    "spark.databricks.delta.snapshotPartitions": ("1", "7"),
    "spark.databricks.delta.merge.materializeSource": ("none", "all", "auto"),
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": SWITCH,
    "spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled": SWITCH,
    "spark.databricks.delta.merge.optimizeMatchedOnlyMerge.enabled": SWITCH,
    "spark.databricks.delta.merge.deletionVectors.persistent": SWITCH,
    "spark.databricks.delta.delete.deletionVectors.persistent": SWITCH,
    "spark.databricks.delta.commitInfo.enabled": SWITCH,
    "spark.databricks.delta.history.metricsEnabled": SWITCH,
    "spark.databricks.delta.writeChecksumFile.enabled": SWITCH,
    "spark.databricks.delta.incrementalCommit.enabled": SWITCH,
    "spark.databricks.delta.checkpoint.partSize": ("2",),
    "spark.databricks.delta.commitInfo.userMetadata": ("what the site says",),
    "spark.databricks.delta.typeCheck.enabled": SWITCH,
    "spark.databricks.delta.convert.useMetadataLog": SWITCH,
    "spark.databricks.delta.state.corruptionIsFatal": SWITCH,
    "spark.databricks.delta.alterTable.changeColumn.checkExpressions": SWITCH,
    "spark.sql.preserveCharVarcharTypeInfo": SWITCH,
    "spark.databricks.delta.optimize.maxFileSize": ("1000",),
    "spark.databricks.delta.optimize.minFileSize": ("1000000",),
    "spark.databricks.delta.retentionDurationCheck.enabled": SWITCH,
    "spark.databricks.delta.writePartitionColumnsToParquet": SWITCH,
    "spark.databricks.delta.optimizeMetadataQuery.enabled": SWITCH,
    "spark.databricks.delta.deletionVectors.useMetadataRowIndex": SWITCH,
    f"{_DEFAULT}checkpointInterval": ("1", "3"),
    f"{_DEFAULT}checkpointPolicy": ("v2", "classic"),
    f"{_DEFAULT}columnMapping.mode": ("name", "id"),
    f"{_DEFAULT}dataSkippingNumIndexedCols": ("0", "2"),
    f"{_DEFAULT}deletedFileRetentionDuration": ("interval 0 seconds",),
    f"{_DEFAULT}enableChangeDataFeed": SWITCH,
    f"{_DEFAULT}enableDeletionVectors": SWITCH,
    f"{_DEFAULT}enableInCommitTimestamps": SWITCH,
    f"{_DEFAULT}enableRowTracking": SWITCH,
    f"{_DEFAULT}enableTypeWidening": SWITCH,
    f"{_DEFAULT}logRetentionDuration": ("interval 0 seconds",),
    f"{_DEFAULT}randomizeFilePrefixes": SWITCH,
    f"{_DEFAULT}autoOptimize.autoCompact": SWITCH,
    f"{_DEFAULT}autoOptimize.optimizeWrite": SWITCH,
    f"{_DEFAULT}isolationLevel": ("Serializable",),
    f"{_DEFAULT}minReaderVersion": ("3",),
    f"{_DEFAULT}minWriterVersion": ("7",),
}
"""What does not change what an expression means."""

REFUSED: Mapping[str, str] = {
    "spark.sql.files.ignoreMissingFiles": ON,
    "spark.sql.files.ignoreCorruptFiles": ON,
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": ON,
    "spark.databricks.delta.autoCompact.enabled": ON,
    "spark.databricks.delta.optimizeWrite.enabled": ON,
    "spark.databricks.delta.schema.autoMerge.enabled": ON,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    f"{_DEFAULT}appendOnly": ON,
    f"{_DEFAULT}setTransactionRetentionDuration": "interval 1 day",
}
"""With these no build begins."""


def drawn(rng: random.Random, group: Mapping[str, tuple[str, ...]], count: int) -> Settings:
    """So many settings of a group, with one of the values of each."""
    return {name: rng.choice(group[name]) for name in rng.sample(list(group), count)}


@contextmanager
def given(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A session of an application that was given these settings."""
    spark.conf.get("spark.sql.session.timeZone")  # a session takes the application's settings when it is first used
    conf = application_conf(spark)
    before = {name: conf.get(name, None) for name in settings}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        session = spark.newSession()
        for name, value in settings.items():
            if session.conf.get(name) != value:  # the tests' own session was given another one
                session.conf.set(name, value)
        yield session
    finally:
        for name, old in before.items():
            if old is None:
                conf._jconf.remove(name)
            else:
                conf.set(name, old)
