"""What an error of Spark, Delta or Kafka means: a conflict with another writer, lost data, or a failure that would
repeat. Unknown errors are retried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from airflow_backfill.core.errors import (
    ApplicationFailed,
    BackfillError,
    CredentialsExpired,
    ExecutorLost,
    ExpressionFailed,
    FileDamaged,
    HistoryLost,
    NoSpace,
    QueryRefused,
    SourceUnavailable,
    SparkIncomplete,
    TargetRefuses,
    UnsafeOption,
)
from airflow_backfill.core.target_table.null_partitions import NULL_PARTITION, or_null
from airflow_backfill.ledger.java_error import Trouble, incomplete, innermost, text_of, troubles
from airflow_backfill.ledger.log_listing import LOG
from airflow_backfill.ledger.store import expired
from airflow_backfill.spark.session.kafka_failure import kafka_error
from airflow_backfill.spark.session.redaction import redacts

_CONFLICTS = frozenset(
    ("ConcurrentTransactionException", "ConcurrentAppendException", "ConcurrentDeleteReadException",
     "ConcurrentDeleteDeleteException", "MetadataChangedException", "ProtocolChangedException",
     "ConcurrentWriteException", "DeltaConcurrentModificationException", "CommitFailedException")
)  # fmt: skip
"""Why Delta refuses a commit although the work itself is right: another commit came first."""
_GONE = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FAILED_READ_FILE.DBR_FILE_NOT_EXIST")
_CLEANED_UP = ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSION_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG")
_NO_COMMIT = "Could not find any delta files for version"
"""What Delta says of a log of which only a checkpoint is left."""
_DAMAGED = ("ChecksumException", "ParquetDecodingException", "TProtocolException")
_HELD_ROWS_GONE = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_NO_PARQUET = ("is not a Parquet file", "can not read class org.apache.parquet")
_NO_ACTIONS = "MALFORMED_RECORD_IN_PARSING"
"""What Spark says of a damaged commit, and of an expression that fails to parse a text."""
_VERSIONS = re.compile(r"Versions \(([0-9]+(?:, ?[0-9]+)*)\) are not contiguous")
_FULL = "No space left on device"
_CONFLICT = re.compile(r"\(Service: S3, Status Code: 409\b")
"""S3 met another request for the same file, and carried out none of the two."""
_NO_UPLOAD = "NoSuchUploadException"
"""S3 knew the upload in parts when it began: it was aborted since, or is complete, and the answer was lost."""
_UNANSWERED = frozenset(
    ("AWSServiceThrottledException", "AWSStatus500Exception", "AWSNoResponseException", "AWSApiCallTimeoutException",
     "AWSClientIOException")
)  # fmt: skip
"""What S3A says once it has repeated a request often enough."""
_BROKEN_OFF = frozenset(
    ("SocketException", "SocketTimeoutException", "ConnectionClosedException", "NoHttpResponseException",
     "SSLException")
)  # fmt: skip
"""What happens to a connection. S3A does not repeat the reads that Spark makes of several ranges at once."""
_DENIED = ("AccessDeniedException", "AccessControlException")
"""How stores say that a right is missing. A local one says that the file is missing, with (Permission denied)."""
_NO_LOG_PATH = "DELTA_CANNOT_CREATE_LOG_PATH"
"""What Delta says if the store refuses the folder of a new table, with or without a cause."""
_QUOTAS = ("DSQuotaExceededException", "NSQuotaExceededException")
_WRITES_TABLE = "TASK_WRITE_FAILED"
_OF_FILES = ("FAILED_READ_FILE", _WRITES_TABLE)
_SPILLS = ("org.apache.spark.storage.", "org.apache.spark.shuffle.", "UnsafeSorterSpillWriter")
"""Where Spark writes to its local disks."""
SCRATCH = "spark.local.dir"
"""``where`` of the error that a scratch folder was emptied."""
_SCRATCH_FILE = re.compile(r"/blockmgr-[0-9a-f-]{36}/\S+")
"""A file that Spark wrote to ``spark.local.dir`` for itself."""
_HOST = re.compile(r"\((\S+) executor \S+\)")
_PATH = re.compile(r"(?:file|path|File) ([^\s,]+\.(?:parquet|bin|json))")

_RESTART = "correct it, and plan again with on_existing='restart'"
_NOT_SET_UP = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"
_RULES = ("DELTA_CANNOT_MODIFY_APPEND_ONLY", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT")
_UNSTABLE = ("42K03", "42P01")
"""SQL states of a missing path or table. Another process may be creating it, so these are retried."""


def _of_delta(trouble: Trouble) -> bool:
    return (trouble.condition or "").startswith("DELTA_")


_FATAL: tuple[tuple[type[BackfillError], Callable[[Trouble], bool], str], ...] = (
    (SparkIncomplete, lambda t: t.condition == _NOT_SET_UP, "add these settings, then clear the task"),
    (
        TargetRefuses,
        lambda t: t.condition in _RULES or t.state.startswith("23"),
        "a rule of the target refuses these rows: remove the rule (ALTER TABLE … DROP CONSTRAINT, ALTER COLUMN … DROP "
        "NOT NULL, ALTER COLUMN … TYPE STRING, or delta.appendOnly = false), then clear the task",
    ),
    (
        TargetRefuses,
        lambda t: NULL_PARTITION in t.text,
        "the copy would differ from the source: correct these rows in the source, then clear the task; or drop the "
        f"target, make one with other partitions, and plan again (or select {or_null('column')})",
    ),
    (
        ExpressionFailed,
        lambda t: t.state.startswith("22") and not _of_delta(t),
        f"an expression of select or where fails on a row of the source: {_RESTART}",
    ),
    (
        QueryRefused,
        lambda t: t.state.startswith(("42", "0A")) and t.state not in _UNSTABLE,
        "source, target or functions have changed since the plan: restore them and clear the task, or plan again with "
        "on_existing='restart'",
    ),
)
"""Failures that would repeat, by Spark's and Delta's error conditions and SQL states (22: data, 23: constraints, 42:
invalid query, 0A: unsupported), each with its way out.
"""


def conflict_of(error: BaseException) -> str | None:
    """Delta's name for the conflict with another writer; None if the error is something else."""
    return next((trouble.kind for trouble in troubles(error) if trouble.kind in _CONFLICTS), None)


def coded(error: BaseException) -> BackfillError:
    """The error as a coded one; ApplicationFailed if it is unknown."""
    if isinstance(error, BackfillError):
        return error
    of_spark = (kafka_error, _expired, _unavailable, _no_space, _executor_lost, _scratch_gone)
    for known in (*of_spark, history_lost, _damaged, incomplete, _no_python):
        if (found := known(error)) is not None:
            return found
    for trouble in reversed(list(troubles(error))):
        for kind, holds, way_out in _FATAL:
            if holds(trouble):
                return kind(f"{_said(trouble)}; {way_out}", condition=trouble.condition)
    what = type(error).__name__ if redacts() else innermost(error)
    return ApplicationFailed(what, error=type(error).__name__)


def refused_by_defaults(error: BaseException, defaults: Sequence[str]) -> UnsafeOption | None:
    """The error as UnsafeOption if Delta refuses to create a table in a session with these ``defaults`` for new tables;
    else None.
    """
    refused = next((trouble for trouble in troubles(error) if _of_delta(trouble)), None)
    if refused is None or not defaults or conflict_of(error) is not None:
        return None
    return UnsafeOption(
        f"Delta cannot create the target ({refused.said}) where every new table gets {', '.join(defaults)}; remove the "
        "setting from the application or the cluster, then clear the task",
        options=list(defaults),
    )


def _said(trouble: Trouble) -> str:
    """What the error says. Errors about data name the value."""
    return trouble.condition if trouble.condition and redacts() else trouble.said


def history_lost(error: BaseException) -> HistoryLost | None:
    """The error as HistoryLost if it reports a missing commit, or a missing file that the log names; else None."""
    for trouble in troubles(error):
        if (listed := _VERSIONS.search(trouble.text)) is not None:
            there = [int(version) for version in listed.group(1).split(",")]
            gone = next((n for n in range(there[0], there[-1]) if n not in there), there[-1] + 1)
            return HistoryLost(
                f"the commit of version {gone} is missing in the middle of a table's log, so its changes would be lost "
                f"({trouble.said}); restore it (from a copy, or the store's versions) and clear the task, or plan "
                "again with on_existing='restart'",
                version=gone,
            )
        if trouble.condition in _CLEANED_UP or _NO_COMMIT in trouble.text:
            return HistoryLost(
                f"a table's log was cleaned up further than the version that the build needs ({trouble.said}); restore "
                "it (from a copy, or the store's versions) and clear the task, or plan again with "
                "on_existing='restart'"
            )
        if trouble.kind == "FileNotFoundException" or any(name in trouble.text for name in _GONE):
            what = _file(error, trouble)
            return HistoryLost(
                f"a file that the log names is gone, so its rows cannot be read: {what}; restore it (from a copy, or "
                "the store's versions) and clear the task, or plan again with on_existing='restart'",
                file=what,
            )
    return None


def _expired(error: BaseException) -> CredentialsExpired | None:
    return expired("a table's store", text_of(error))


def _unavailable(error: BaseException) -> SourceUnavailable | None:
    """SourceUnavailable if the store of a table failed to answer, or refused: a later application repeats the round."""
    found = list(troubles(error))
    if _CONFLICT.search(text_of(error)) is not None:
        why = "S3 met another request for the same file"
    elif any(trouble.kind == _NO_UPLOAD for trouble in found):
        why = "S3 does not know the upload of a new file any more"
    elif any(trouble.kind in _UNANSWERED for trouble in found) or (
        any((trouble.condition or "").startswith(_OF_FILES) for trouble in found)
        and any(trouble.kind in _BROKEN_OFF for trouble in found)
    ):
        why = "the store of a table does not answer"
    elif any(_denies(trouble) for trouble in found):
        why = "the store of a table refuses a request"
    else:
        return None
    return SourceUnavailable(f"{why}: {innermost(error)}")


def _denies(trouble: Trouble) -> bool:
    missing = trouble.kind == "FileNotFoundException" and trouble.text.endswith("(Permission denied)")
    return missing or trouble.kind in _DENIED or trouble.condition == _NO_LOG_PATH


def _no_space(error: BaseException) -> NoSpace | None:
    found = list(troubles(error))
    if not any(trouble.kind in _QUOTAS or _FULL in trouble.text for trouble in found):
        return None
    text, where = text_of(error), "at the target"
    if any(name in text for name in _SPILLS) and all(trouble.condition != _WRITES_TABLE for trouble in found):
        host = _HOST.search(text)
        where = f"in spark.local.dir of {host[1] if host else 'the driver'}"
    return NoSpace(
        f"a disk is full, or a quota is used up, {where}: {innermost(error)}; make room there",
        where=where,
    )


def _executor_lost(error: BaseException) -> ExecutorLost | None:
    for trouble in troubles(error):
        if trouble.condition == _HELD_ROWS_GONE or _HELD_ROWS_GONE in trouble.text:
            return ExecutorLost(f"an executor ended, and with it rows that it held: {trouble.said}")
    return None


def _scratch_gone(error: BaseException) -> ApplicationFailed | None:
    for trouble in troubles(error):
        file = _SCRATCH_FILE.search(trouble.text)
        if file is not None and trouble.kind in ("FileNotFoundException", "NoSuchFileException"):
            return ApplicationFailed(
                f"a file that Spark had in spark.local.dir is gone ({file[0]}): something empties the folder, as "
                "systemd-tmpfiles does with /tmp; set spark.local.dir to another one",
                file=file[0],
                where=SCRATCH,
            )
    return None


def _damaged(error: BaseException) -> FileDamaged | None:
    found = list(troubles(error))
    malformed = any((trouble.condition or "").startswith(_NO_ACTIONS) for trouble in found)
    for trouble in found:
        of_log = malformed and f"/{LOG}/" in trouble.text
        if of_log or trouble.kind in _DAMAGED or any(text in trouble.text for text in _NO_PARQUET):
            what = _file(error, trouble)
            return FileDamaged(
                f"{what} is damaged, so its rows cannot be read: {trouble.said}; restore the file (from a copy, or the "
                "store's versions) and clear the task, or repair the table and plan again with on_existing='restart'",
                file=what,
            )
    return None


def _no_python(error: BaseException) -> SparkIncomplete | None:
    """SparkIncomplete for a missing Python package (ImportError) or a missing Java class (py4j's TypeError)."""
    if isinstance(error, ImportError) or "'JavaPackage' object is not callable" in str(error):
        return SparkIncomplete(
            f"{type(error).__name__}: {error}; the driver lacks a package or jar; add it (spark.jars.packages, --jars, "
            "--py-files), then clear the task"
        )
    return None


def _file(error: BaseException, trouble: Trouble) -> str:
    """The file that the error is about. The innermost error may not name it."""
    named = (_PATH.search(one.text) for one in (trouble, *troubles(error)))
    return next((found.group(1) for found in named if found), None) or innermost(error)


@contextmanager
def lost_history_named() -> Iterator[None]:
    """Raise HistoryLost instead of Spark's own error for the same thing."""
    try:
        yield
    except Exception as error:
        lost = history_lost(error)
        if lost is None:
            raise
        raise lost from error
