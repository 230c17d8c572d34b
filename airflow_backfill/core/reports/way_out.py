"""What somebody can do about each coded error, where its message does not say it better: one line a code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_backfill.core.errors import BackfillError

WAYS_OUT: Final[Mapping[str, str]] = {
    "SPEC_INVALID": "Correct the field that the message names, then clear the task.",
    "UNSAFE_OPTION": "Leave the setting out, or set it as the message says, then clear the task.",
    "UNSAFE_COMMIT_STORE": (
        "Configure a log store that is safe for several writers, or put the target on another store."
    ),
    "EXPRESSION_INVALID": (
        "Correct the expression; of a build that is there already, plan again with on_existing='restart'."
    ),
    "SOURCE_NOT_DELTA": "Check the location for typing errors, and that its table has been written.",
    "TABLE_UNSUPPORTED": "Take the feature from the table, or build from a table without it.",
    "SOURCE_FEED_OFF": (
        "Set delta.enableChangeDataFeed = true on the source, then plan (with on_existing='restart' if a build "
        "is there)."
    ),
    "EXPRESSION_FAILED": "Mend the expression or the rows, then plan again with on_existing='restart'.",
    "QUERY_REFUSED": (
        "Put source, target or functions back as they were and clear the task, or plan again with "
        "on_existing='restart'."
    ),
    "SPARK_INCOMPLETE": "Add the jar, package or setting where Spark runs, then clear the task.",
    "FILE_DAMAGED": "Restore the file and clear the task, or mend the table and plan again with on_existing='restart'.",
    "TARGET_REFUSES": "Take the rule from the target, then clear the task.",
    "KEY_INVALID": "Name columns that select keeps unchanged and whose values identify a row.",
    "KEY_NULL": "Give these rows a key in the source, or delete them there, then clear the task.",
    "KEY_DUPLICATE": (
        "Delete the surplus rows from the source, then clear the task; or plan again with on_existing='restart' and a "
        "key that tells them apart."
    ),
    "HISTORY_LOST": (
        "Restore what is gone and clear the task. Else, with a key, say that the target stands at the source's head "
        "(table-backfill recover TARGET --epoch N), verify it, and repair what differs; or plan again with "
        "on_existing='restart'. Keep history for longer."
    ),
    "SOURCE_REPLACED": "Put the planned source back and clear the task, or plan again with on_existing='restart'.",
    "LANDING_INVALID": "Give the landing table the columns that an ingestion writes, or name the right table.",
    "KAFKA_OPTION": "Correct the option in the connection, then clear the task.",
    "TOPIC_MISSING": "Correct topic.name or the brokers' addresses, or create the topic; then clear the task.",
    "KAFKA_REFUSED": "Correct credentials, certificates or rights of the connection, then clear the task.",
    "KAFKA_LOST": (
        "While the history is read: order 'table-backfill skip', which counts what is lost and goes on from what is "
        "left, and clear the task. At the plan: a later topic.first, or topic.expired='skip'. Give the topic longer "
        "retention."
    ),
    "LANDING_AHEAD": (
        "It is tried again. If that does not help, the connection leads to other brokers than the ingestion's."
    ),
    "OFFSETS_INVALID": "Repair the landing table (one row for each partition and offset), then clear the task.",
    "PARTITION_INCOMPLETE": "Let the ingestion land this partition from its beginning, then clear the task.",
    "PARTITIONS_GREW": "Plan again with on_existing='restart'; with topic.order a topic may grow.",
    "DECODER_INVALID": (
        "Install the planned version of the decoder where Spark runs and clear the task, or plan again with "
        "on_existing='restart'."
    ),
    "FUNCTION_INVALID": (
        "Install the function in the version that the spec names where Spark runs and clear the task, or plan again "
        "with on_existing='restart'."
    ),
    "UNDECODABLE": (
        "Correct topic.key or topic.value, or set topic.undecodable to dead_letters; plan again with "
        "on_existing='restart'."
    ),
    "ORDER_UNKNOWN": (
        "Name a column as topic.order that tells which record is later; plan again with on_existing='restart'."
    ),
    "SCHEMA_CHANGED": (
        "Plan again with on_existing='restart'; new_columns='ignore' passes over columns that are only added."
    ),
    "NOT_APPEND_ONLY": (
        "Give the source a change data feed and the build a key, then plan again with on_existing='restart'."
    ),
    "CHANGES_INCOMPLETE": (
        "Clear the task once. If it comes again, the source's files and log do not agree: check how it is written."
    ),
    "EPOCH_DISCONTINUOUS": "Plan again with on_existing='restart': an epoch is missing between the two.",
    "TARGET_EXISTS": "Name another target, or move away what is there.",
    "SPEC_CHANGED": "Put the option back as planned, or plan again with on_existing='restart'.",
    "TARGET_DIVERGED": (
        "RESTORE the target to its last barrier (status names it) and run recover, or plan again with "
        "on_existing='restart'."
    ),
    "TARGET_CONTENDED": "It is tried again. Let other writers of the target pause.",
    "TARGET_BUSY": "It is tried again. Look for another application that works on the same target.",
    "MEMORY_LOST": "Plan again with on_existing='restart': what the build remembered beside its target is gone.",
    "RECORD_INVALID": (
        "Put the rows right and run recover with the epoch at which they stand, or plan again with "
        "on_existing='restart'."
    ),
    "NOT_PLANNED": "Run the plan task first, or correct the target's location.",
    "FENCED": "Nothing, if the newer attempt works on; clear the task if it does not.",
    "POSITION_REGRESSED": (
        "Run recover with the epoch at which the target stands, or plan again with on_existing='restart'."
    ),
    "NOT_CONVERGING": (
        "Raise max_lag or the throttle, give Spark more cores, or slow the source's writers; then clear the task."
    ),
    "GATE_TIMEOUT": "Meet the condition that the message names, then clear the task.",
    "HANDOFF_REJECTED": "Clear the gate task to ask again.",
    "VERIFICATION_FAILED": "Run repair, which rewrites exactly the keys that differ, then clear the verify task.",
    "NOT_ALLOWED_NOW": "Run the task that the message names first, or leave the request.",
    "CANCELLED": "Plan the build again: it goes on from where it was.",
    "INTERRUPTED": "It is tried again. Once the command is lifted the work is done.",
    "SOURCE_UNAVAILABLE": "It is tried again. Check the network, and the credentials of the store.",
    "APPLICATION_FAILED": "It is tried again. The cause is in the log of the Spark application.",
}


def way_out(error: BackfillError) -> str:
    """The line for an error; for a code of a newer version, where to look."""
    return WAYS_OUT.get(error.code, "Look into the log of the Spark application.")
