"""The coded errors of a table backfill.

One class per code. An error carries its data, so that a message, a JSON outcome and an Airflow decision are
made from the same facts. ``retry`` says whether trying the same thing again can help; the Airflow side maps
it to "fail" or "retry" in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class BackfillError(Exception):
    """Base of all coded errors: ``code`` is stable, ``data`` is JSON, ``retry`` says if a retry can help."""

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
    """The request itself is wrong: an option is unknown, missing, out of range or not rendered."""

    code = "SPEC_INVALID"


class UnsafeOption(BackfillError):
    """An option that would trade rows for silence (``ignoreMissingFiles`` and its kind) is on."""

    code = "UNSAFE_OPTION"


class UnsafeCommitStore(BackfillError):
    """The target's store cannot keep two writers from winning the same version."""

    code = "UNSAFE_COMMIT_STORE"


class InvalidExpression(BackfillError):
    """``select`` or ``where`` does not parse, is not deterministic, or uses what is not allowed."""

    code = "EXPRESSION_INVALID"


class SourceNotDelta(BackfillError):
    """There is no Delta table at the source."""

    code = "SOURCE_NOT_DELTA"


class UnsupportedTable(BackfillError):
    """The table's protocol has a feature this package does not know, or its kind is not supported."""

    code = "TABLE_UNSUPPORTED"


class FeedOff(BackfillError):
    """The change data feed is off, or was off in a part of the range that is needed."""

    code = "SOURCE_FEED_OFF"


class ExpressionFailed(BackfillError):
    """An expression of ``select`` or ``where`` cannot take a value of the source: names error and expression."""

    code = "EXPRESSION_FAILED"


class QueryRefused(BackfillError):
    """Spark refuses what the build asks of it: a column, a type or a function is not what it was at the plan."""

    code = "QUERY_REFUSED"


class SparkIncomplete(BackfillError):
    """Spark lacks a class, as a rule a jar, or the file system of a location's scheme: names it."""

    code = "SPARK_INCOMPLETE"


class FileDamaged(BackfillError):
    """A file that the log names is there and cannot be read: cut short, or overwritten. Names it."""

    code = "FILE_DAMAGED"


class TargetRefuses(BackfillError):
    """The target's own rules keep out what has to be written: CHECK and NOT NULL constraints, ``appendOnly``."""

    code = "TARGET_REFUSES"


class KeyInvalid(BackfillError):
    """A key column is missing, of a type without a usable order, or lost by the transform."""

    code = "KEY_INVALID"


class KeyNull(BackfillError):
    """Rows without a key: count and sample."""

    code = "KEY_NULL"


class DuplicateKey(BackfillError):
    """Several rows of one key at the same epoch: count and sample, with the epoch that brought the last one."""

    code = "KEY_DUPLICATE"


class HistoryLost(BackfillError):
    """Source history that the build still needs is gone: names the version or the file."""

    code = "HISTORY_LOST"


class SourceReplaced(BackfillError):
    """The source is another table or topic now: dropped and created again, or its history went backwards."""

    code = "SOURCE_REPLACED"


class LandingInvalid(BackfillError):
    """The landing table does not have the columns of a topic's records, or rows of it have no place in the topic."""

    code = "LANDING_INVALID"


class KafkaOption(BackfillError):
    """A connection to Kafka says what it may not, or not enough: names the option, never its value."""

    code = "KAFKA_OPTION"


class TopicMissing(BackfillError):
    """The brokers do not know the topic."""

    code = "TOPIC_MISSING"


class KafkaRefused(BackfillError):
    """The brokers do not let us in, or not do this: credentials, certificates, rights. Trying again cannot help."""

    code = "KAFKA_REFUSED"


class KafkaLost(BackfillError):
    """Records that the build still needs have left the topic: names the partition, the offset wanted and the first."""

    code = "KAFKA_LOST"


class LandingAhead(BackfillError):
    """The landing table holds offsets that the broker, asked after it was pinned, does not have: plan again."""

    code = "LANDING_AHEAD"
    retry = True


class OffsetsInvalid(BackfillError):
    """Offsets of a partition repeat, fall or lie outside of what was read: names partition and offset."""

    code = "OFFSETS_INVALID"


class PartitionIncomplete(BackfillError):
    """A partition appeared after the history was read, and not all of it has landed: names the partition."""

    code = "PARTITION_INCOMPLETE"


class PartitionsGrew(BackfillError):
    """A topic has more partitions than it had, and without an order nobody knows which value of a key is its last."""

    code = "PARTITIONS_GREW"


class DecoderInvalid(BackfillError):
    """A decoder that the spec names is not installed where Spark runs, cannot be used, or is not deterministic."""

    code = "DECODER_INVALID"


class FunctionInvalid(BackfillError):
    """A function that the spec names is not installed where Spark runs, or has another version there."""

    code = "FUNCTION_INVALID"


class Undecodable(BackfillError):
    """Records whose key or value cannot be decoded, and no table for them: count and sample of places and reasons."""

    code = "UNDECODABLE"


class OrderUnknown(BackfillError):
    """Which record of a key is the last one cannot be told: count and sample of places."""

    code = "ORDER_UNKNOWN"


class MemoryLost(BackfillError):
    """What a keyed topic's build remembers of keys, beside its target, is gone."""

    code = "MEMORY_LOST"


class SchemaChanged(BackfillError):
    """The source's schema changed in a way the policy does not allow: names epoch and column."""

    code = "SCHEMA_CHANGED"


class NotAppendOnly(BackfillError):
    """An epoch does more than add rows to a source that is followed without feed or key: names the epoch."""

    code = "NOT_APPEND_ONLY"


class ChangesIncomplete(BackfillError):
    """The rows read for an epoch do not agree with what its commit says: nothing was applied."""

    code = "CHANGES_INCOMPLETE"


class Discontinuous(BackfillError):
    """The next epoch is not the last applied one plus one: names both."""

    code = "EPOCH_DISCONTINUOUS"


class TargetExists(BackfillError):
    """The target exists and is not ours, or is owned by another build."""

    code = "TARGET_EXISTS"


class SpecChanged(BackfillError):
    """A build of this name exists with another spec: the difference is in ``data``."""

    code = "SPEC_CHANGED"


class TargetDiverged(BackfillError):
    """Somebody else changed the target's data, or restored, replaced or cloned it."""

    code = "TARGET_DIVERGED"


class TargetContended(BackfillError):
    """Foreign commits kept winning against the same round, beyond the bound."""

    code = "TARGET_CONTENDED"
    retry = True


class TargetBusy(BackfillError):
    """Another writer holds the target's lock."""

    code = "TARGET_BUSY"
    retry = True


class RecordInvalid(BackfillError):
    """A stored record or plan does not say what a record must say."""

    code = "RECORD_INVALID"


class NotPlanned(BackfillError):
    """The target holds no plan of a build."""

    code = "NOT_PLANNED"


class Fenced(BackfillError):
    """A newer attempt has taken over: this one has to end, and wrote nothing since."""

    code = "FENCED"


class PositionRegressed(BackfillError):
    """A position that is not a legal successor of the committed one: a bug, or an edited record."""

    code = "POSITION_REGRESSED"


class NotConverging(BackfillError):
    """The log grows faster than it is applied: the numbers are in ``data``."""

    code = "NOT_CONVERGING"


class GateTimeout(BackfillError):
    """The gate did not open in time; says what it waited for."""

    code = "GATE_TIMEOUT"


class Rejected(BackfillError):
    """A person said no to the hand-off."""

    code = "HANDOFF_REJECTED"


class VerificationFailed(BackfillError):
    """The target is not equal to the transformed source at the epoch: keys are in ``data``."""

    code = "VERIFICATION_FAILED"


class NotAllowedNow(BackfillError):
    """The request is known, but not legal in the phase the build is in."""

    code = "NOT_ALLOWED_NOW"


class Cancelled(BackfillError):
    """The build was cancelled by a command."""

    code = "CANCELLED"


class Interrupted(BackfillError):
    """A command stopped a unit of work where it was. The attempt goes on and obeys: no outcome says this."""

    code = "INTERRUPTED"
    retry = True


class SourceUnavailable(BackfillError):
    """The store of the source did not answer."""

    code = "SOURCE_UNAVAILABLE"
    retry = True


class ApplicationFailed(BackfillError):
    """The Spark application ended without an outcome."""

    code = "APPLICATION_FAILED"
    retry = True


def error_in(outcome: Mapping[str, Any]) -> BackfillError:
    """The error that an attempt's outcome tells of. A code of a newer version keeps its word about retries."""
    kinds = {kind.code: kind for kind in BackfillError.__subclasses__()}
    fallback = ApplicationFailed if outcome["retry"] else BackfillError
    return kinds.get(outcome["code"], fallback)(outcome["message"], **outcome["data"])
