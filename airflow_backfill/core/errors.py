"""The coded errors of a table backfill.

One class per code. An error carries its data, so that the message, the JSON outcome and Airflow's decision rest on the
same facts. ``retry`` says whether a retry can help; ``airflow_backfill.failure`` maps it to Airflow's exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class BackfillError(Exception):
    """Base of all coded errors. ``code`` is stable, ``data`` is plain JSON, ``retry`` says whether a retry can help."""

    code: ClassVar[str] = "INTERNAL"
    retry: ClassVar[bool] = False

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The error as an outcome stores it."""
        return {"code": self.code, "message": self.message, "retry": self.retry, "data": self.data}


class InvalidSpec(BackfillError):
    """The request is wrong: an option is unknown, missing, out of range, or an unrendered template."""

    code = "SPEC_INVALID"


class UnsafeOption(BackfillError):
    """A setting with which rows can be lost, doubled or changed is on, such as ``ignoreMissingFiles``."""

    code = "UNSAFE_OPTION"


class UnsafeCommitStore(BackfillError):
    """The target's store lets two writers commit the same version."""

    code = "UNSAFE_COMMIT_STORE"


class InvalidExpression(BackfillError):
    """``select`` or ``where`` does not parse, is not deterministic, or uses something that is not allowed."""

    code = "EXPRESSION_INVALID"


class SourceNotDelta(BackfillError):
    """There is no Delta table at the location of the source."""

    code = "SOURCE_NOT_DELTA"


class UnsupportedTable(BackfillError):
    """The table uses a feature or protocol version that this package does not support."""

    code = "TABLE_UNSUPPORTED"


class FeedOff(BackfillError):
    """The change data feed is off, or was off for some of the epochs that the build needs."""

    code = "SOURCE_FEED_OFF"


class ExpressionFailed(BackfillError):
    """An expression of ``select`` or ``where`` fails on a value of the source. Names error and expression."""

    code = "EXPRESSION_FAILED"


class QueryRefused(BackfillError):
    """Spark refuses a query of the build: a column, type or function has changed since the plan."""

    code = "QUERY_REFUSED"


class SparkIncomplete(BackfillError):
    """Spark lacks a class (usually a jar) or the file system of a location's scheme, or is not installed. Names it."""

    code = "SPARK_INCOMPLETE"


class FileDamaged(BackfillError):
    """A file that the log names exists but cannot be read: truncated or overwritten. Names it."""

    code = "FILE_DAMAGED"


class TargetRefuses(BackfillError):
    """The target rejects rows of the build: by a CHECK or NOT NULL constraint, the type of a column, or
    ``appendOnly``.
    """

    code = "TARGET_REFUSES"


class KeyInvalid(BackfillError):
    """A key column is missing, has an unsupported type, or is not in the target."""

    code = "KEY_INVALID"


class KeyNull(BackfillError):
    """Rows have no key. Data: count and sample."""

    code = "KEY_NULL"


class DuplicateKey(BackfillError):
    """Several rows have the same key at one epoch. Data: count, sample, and the epoch of the last such row."""

    code = "KEY_DUPLICATE"


class HistoryLost(BackfillError):
    """Source history that the build still needs was deleted. Names the version or the file."""

    code = "HISTORY_LOST"


class SourceReplaced(BackfillError):
    """The source is another table or topic: it was created again, or restored to an earlier state."""

    code = "SOURCE_REPLACED"


class LandingInvalid(BackfillError):
    """The landing table lacks columns of a topic's records, or has rows that are no committed records of the topic."""

    code = "LANDING_INVALID"


class KafkaOption(BackfillError):
    """An option of the Kafka connection is missing, invalid or not allowed. Names the option, never its value."""

    code = "KAFKA_OPTION"


class TopicMissing(BackfillError):
    """The brokers do not know the topic."""

    code = "TOPIC_MISSING"


class KafkaRefused(BackfillError):
    """The brokers refuse access: credentials, certificates or permissions. A retry cannot help."""

    code = "KAFKA_REFUSED"


class KafkaLost(BackfillError):
    """Kafka has deleted records that the build still needs. Names partition, wanted offset and first offset."""

    code = "KAFKA_LOST"


class LandingAhead(BackfillError):
    """The landing table holds offsets that the broker does not have yet, although it was asked later."""

    code = "LANDING_AHEAD"
    retry = True


class OffsetsInvalid(BackfillError):
    """Offsets of a partition repeat, decrease, or lie outside the range that was read. Names partition and offset."""

    code = "OFFSETS_INVALID"


class PartitionIncomplete(BackfillError):
    """A partition appeared after the history was read, and the landing table lacks its first records. Names it."""

    code = "PARTITION_INCOMPLETE"


class PartitionsGrew(BackfillError):
    """The topic has more partitions than at the plan: without an order, the last value of a key is unknown."""

    code = "PARTITIONS_GREW"


class DecoderInvalid(BackfillError):
    """A decoder of the spec is not installed where Spark runs, is unusable, not deterministic, or another version."""

    code = "DECODER_INVALID"


class FunctionInvalid(BackfillError):
    """A function that the spec names is not installed where Spark runs, or has another version there."""

    code = "FUNCTION_INVALID"


class Undecodable(BackfillError):
    """Records cannot be decoded or lack key or order, and have no table of dead letters. Data: count and sample."""

    code = "UNDECODABLE"


class OrderUnknown(BackfillError):
    """The last record of a key is unknown. Data: count and sample of partitions and offsets."""

    code = "ORDER_UNKNOWN"


class MemoryLost(BackfillError):
    """The memory of keys beside the target, which a keyed topic's build needs, was deleted."""

    code = "MEMORY_LOST"


class SchemaChanged(BackfillError):
    """The source's schema changed in a way that the policy does not allow. Names epoch and column."""

    code = "SCHEMA_CHANGED"


class NotAppendOnly(BackfillError):
    """An epoch updates or deletes rows of a source without feed or key. Names the epoch."""

    code = "NOT_APPEND_ONLY"


class ChangesIncomplete(BackfillError):
    """The rows read for an epoch do not match its commit. Nothing was applied."""

    code = "CHANGES_INCOMPLETE"


class Discontinuous(BackfillError):
    """The next epoch is not the last applied one plus one. Names both."""

    code = "EPOCH_DISCONTINUOUS"


class TargetExists(BackfillError):
    """The target exists and no table backfill made it, or another build owns it, or a drop of it has not ended."""

    code = "TARGET_EXISTS"


class SpecChanged(BackfillError):
    """A build of this name exists with another spec. Data: the difference."""

    code = "SPEC_CHANGED"


class TargetDiverged(BackfillError):
    """Another writer changed the target's rows, or restored, replaced, cloned or put back the table."""

    code = "TARGET_DIVERGED"


class TargetContended(BackfillError):
    """Commits of other writers conflicted with the same round too often."""

    code = "TARGET_CONTENDED"
    retry = True


class TargetBusy(BackfillError):
    """Another writer holds the target's lock."""

    code = "TARGET_BUSY"
    retry = True


class RecordInvalid(BackfillError):
    """A stored record, plan or commit is damaged or invalid."""

    code = "RECORD_INVALID"


class DocumentDamaged(RecordInvalid):
    """A file beside the target is damaged: of an attempt, its heartbeat, its outcome, or a command. Names it."""

    code = "DOCUMENT_DAMAGED"


class NotPlanned(BackfillError):
    """The target has no plan of a build."""

    code = "NOT_PLANNED"


class Fenced(BackfillError):
    """A newer attempt has taken over. This one ends, and has written nothing since."""

    code = "FENCED"


class PositionRegressed(BackfillError):
    """A position is no legal successor of the committed one: a bug, or an edited record."""

    code = "POSITION_REGRESSED"


class NotConverging(BackfillError):
    """The log grows faster than it is applied. Data: the numbers."""

    code = "NOT_CONVERGING"


class GateTimeout(BackfillError):
    """A sensor timed out. Names what it waited for."""

    code = "GATE_TIMEOUT"


class Rejected(BackfillError):
    """The hand-off was not approved."""

    code = "HANDOFF_REJECTED"


class VerificationFailed(BackfillError):
    """The target differs from the transformed source at the epoch. Data: keys that differ."""

    code = "VERIFICATION_FAILED"


class NotAllowedNow(BackfillError):
    """The request is not possible in the current phase of the build."""

    code = "NOT_ALLOWED_NOW"


class Cancelled(BackfillError):
    """The build was cancelled by a command."""

    code = "CANCELLED"

    def __init__(self, message: str = "", **data: Any) -> None:
        super().__init__(message or "the build was cancelled; run the plan task again to resume it", **data)


class Interrupted(BackfillError):
    """A command interrupted a round. The attempt obeys the command and goes on; it never ends with this error."""

    code = "INTERRUPTED"
    retry = True


class SourceUnavailable(BackfillError):
    """A store of tables, or Airflow, does not answer; or Airflow has no such connection, or refuses it. Names it."""

    code = "SOURCE_UNAVAILABLE"
    retry = True


class CredentialsExpired(BackfillError):
    """The session credentials for a store of tables have expired."""

    code = "CREDENTIALS_EXPIRED"
    retry = True


class NoSpace(BackfillError):
    """A disk is full, or a quota is used up: that of a store of tables, of a machine of Spark, or of a worker."""

    code = "NO_SPACE"
    retry = True


class ExecutorLost(BackfillError):
    """An executor of Spark ended, and with it rows that it held for a round or a proof."""

    code = "EXECUTOR_LOST"
    retry = True


class ApplicationFailed(BackfillError):
    """The Spark application ended without an outcome."""

    code = "APPLICATION_FAILED"
    retry = True


def error_in(outcome: Mapping[str, Any]) -> BackfillError:
    """The error in an attempt's outcome. An unknown code, of a newer version, keeps its ``retry``."""
    known = {kind.code: kind for kind in kinds()}
    fallback = ApplicationFailed if outcome["retry"] else BackfillError
    return known.get(outcome["code"], fallback)(outcome["message"], **outcome["data"])


def kinds(of: type[BackfillError] = BackfillError) -> Iterator[type[BackfillError]]:
    """Every class with a code, below one of them."""
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)
