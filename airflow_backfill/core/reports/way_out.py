"""The way out of each coded error, one line per code. A message may name a more specific one.

Whether there is another try is known only where the task is: see ``way_out``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.source.identity import CLEAR

_RECOVER = "run 'table-backfill recover TARGET --epoch N --why REASON'"
_CLEAR = f"then {CLEAR}."
_THEN_REPAIR = f"and 'table-backfill repair TARGET --why REASON', {_CLEAR}"
_KEEP = (
    f"Or keep the target, if the build has a key: {_RECOVER} with the source's newest epoch (DESCRIBE HISTORY names "
    f"it) {_THEN_REPAIR}"
)
_CORRECTED = (
    "If the error comes again, because the correction is after the hand-off epoch or in a later round: "
    f"{_RECOVER} with the epoch of the correction {_THEN_REPAIR}"
)
_RESTORE = (
    "RESTORE the target and run 'table-backfill recover TARGET --why REASON', then clear the task: the build goes on "
    "from the version that you name in the RESTORE, the one"
)
_KEYLESS = (
    f"Without a key: {_RECOVER} with the epoch of the target's rows, which userMetadata in the target's DESCRIBE "
    f"HISTORY names (positions), {_CLEAR}"
)

WAYS_OUT: Final[Mapping[str, str]] = {
    "SPEC_INVALID": "Correct the field that the message names; then clear the task, or give the command again.",
    "UNSAFE_OPTION": "Remove the setting, or set it as the message says, then clear the task.",
    "UNSAFE_COMMIT_STORE": (
        "On s3a: use a service that honours If-None-Match, and leave the log store to this package, or name Delta's "
        "S3DynamoDBLogStore. Elsewhere configure one that is safe for several drivers, or use another store; then "
        "clear the task."
    ),
    "EXPRESSION_INVALID": (
        "Correct the expression and clear the task. If the build exists already, plan again with on_existing='restart'."
    ),
    "SOURCE_NOT_DELTA": (
        "Check the location, and that its table has been written; then clear the task, or give the command again."
    ),
    "TABLE_UNSUPPORTED": (
        "Drop the feature from the table (ALTER TABLE … DROP FEATURE), or use a table without it; then clear the task."
    ),
    "SOURCE_FEED_OFF": (
        "Set delta.enableChangeDataFeed = true on the source, then plan. If the build exists already, plan with "
        f"on_existing='restart'. Or keep the target: {_RECOVER} with the epoch of that change {_THEN_REPAIR}"
    ),
    "EXPRESSION_FAILED": (
        "Correct the expression, or the rows in the source, then plan again with on_existing='restart'. Or keep the "
        f"target, if the build has a key: correct the rows, {_RECOVER} with the epoch of the correction {_THEN_REPAIR}"
    ),
    "QUERY_REFUSED": (
        "Restore source, target or functions as they were and clear the task, or plan again with on_existing='restart'."
    ),
    "SPARK_INCOMPLETE": "Add the jar, package or setting to Spark's configuration, then clear the task.",
    "FILE_DAMAGED": (
        "Restore the file and clear the task, or repair the table and plan again with on_existing='restart'. If the "
        "file is the target's: do what the message says. Or keep the target, if the build has a key: correct the "
        f"source, {_RECOVER} with the epoch of the correction {_THEN_REPAIR}"
    ),
    "TARGET_REFUSES": (
        "Drop the rule from the target, then clear the task. If no build was planned yet, let the plan create the "
        "target."
    ),
    "KEY_INVALID": "Name key columns that select keeps unchanged and whose values identify a row, then plan.",
    "KEY_NULL": (f"Give these rows a key in the source, or delete them there, then clear the task. {_CORRECTED}"),
    "KEY_DUPLICATE": (
        "Delete the duplicate rows from the source, then clear the task; or plan again with on_existing='restart' and "
        f"a key that identifies each row. {_CORRECTED}"
    ),
    "HISTORY_LOST": (
        "Restore the deleted file and clear the task. If that is not possible, plan again with on_existing='restart'. "
        f"{_KEEP} If commits of the target's log are lost, name the epoch at which the target stands (epoch in the "
        "result of the last task that succeeded): then no repair is needed, so it works without a key, too. If a data "
        "file of the target is lost, only the first two help, or the RESTORE that the message names. To avoid the "
        "error, raise the retention of the table that it is about."
    ),
    "SOURCE_REPLACED": (
        "Restore the planned source (RESTORE TABLE, if it was replaced by CREATE OR REPLACE TABLE) and clear the task, "
        "or plan again with on_existing='restart'. If a topic was created again, first delete the former topic's rows "
        "from the landing table, or name a new landing table. If the source was put back from a backup, the target can "
        "go back, too: RESTORE it to a version at an epoch that the source still has, run "
        "'table-backfill recover TARGET --why REASON', then clear the task. That does not help a chain that has "
        "announced an epoch of the lost history."
    ),
    "LANDING_INVALID": (
        "Correct the landing table, or name the right one; then plan again, with on_existing='restart' if the build "
        "exists already."
    ),
    "KAFKA_OPTION": "Correct the option in the connection, then clear the task.",
    "TOPIC_MISSING": (
        "Correct topic.name, the brokers' addresses or the rights of the connection, then clear the task. A topic that "
        "was deleted and created again is another one: plan again with on_existing='restart'."
    ),
    "KAFKA_REFUSED": "Correct credentials, certificates or permissions of the connection, then clear the task.",
    "KAFKA_LOST": (
        "If the message names skip: run 'table-backfill skip TARGET' to count the lost records and go on without them, "
        "then clear the task. Else do what the message says. To avoid the error, raise the topic's retention."
    ),
    "LANDING_AHEAD": (
        "If a retry does not help, correct the connection: it leads to other brokers than those of the ingestion. Or "
        "the topic was created again: delete the former topic's rows from the landing table, or name a new landing "
        "table."
    ),
    "OFFSETS_INVALID": (
        "Plan again with on_existing='restart': what has landed before a plan may have landed in any order. If the "
        "topic was created again, delete the former topic's rows from the landing table first, or name a new one."
    ),
    "PARTITION_INCOMPLETE": (
        "Let the ingestion land this partition from its beginning. Set round_rows and round_bytes so that one round "
        "holds everything that has landed since, then clear the task."
    ),
    "PARTITIONS_GREW": "Plan again with on_existing='restart'. With topic.order, a topic may get more partitions.",
    "DECODER_INVALID": (
        "Install the planned version of the decoder where Spark runs and clear the task, or plan again with "
        "on_existing='restart'."
    ),
    "FUNCTION_INVALID": (
        "Install the function in the version that the spec names where Spark runs and clear the task, or name the "
        "installed version in functions and plan again with on_existing='restart'."
    ),
    "UNDECODABLE": (
        "To go on without these records, run 'table-backfill dead-letter TARGET', which puts them into a table beside "
        "the target, and clear the task. Or correct topic.key or topic.value, and plan again with "
        "on_existing='restart'. If the error is about a record's timestamp, do what the message says instead."
    ),
    "ORDER_UNKNOWN": (
        "Set topic.order to a column that orders the records of a key; plan again with on_existing='restart'."
    ),
    "SCHEMA_CHANGED": (
        "Plan again with on_existing='restart'; new_columns='ignore' ignores columns that are only added. Or keep the "
        "target, if the build has a key: undo the change in the source (not needed if columns were only added), "
        f"{_RECOVER} with the epoch of that {_THEN_REPAIR} Without a key, the message says whether the target can be "
        "kept."
    ),
    "NOT_APPEND_ONLY": (
        "Give the source a change data feed and the build a key, then plan again with on_existing='restart'. Or keep "
        f"the target, if the build has a key: {_RECOVER} with the epoch that the message names {_THEN_REPAIR} Of a "
        "topic: plan again with on_existing='restart', and from then on only append to the landing table."
    ),
    "CHANGES_INCOMPLETE": (
        "Clear the task once. If the error comes again, files and log of the source disagree: check how it is written, "
        f"then plan again with on_existing='restart'. {_KEEP}"
    ),
    "EPOCH_DISCONTINUOUS": (
        f"If the message names a version of the target: {_RESTORE} before it. Else an epoch is missing between the "
        f"two: plan again with on_existing='restart'. {_KEEP}"
    ),
    "TARGET_EXISTS": "Name another target, or move the existing table away; then plan. If a drop has begun: end it.",
    "SPEC_CHANGED": "Set the option as planned, or plan again with on_existing='restart'.",
    "TARGET_DIVERGED": (
        f"{_RESTORE} before the foreign commit (the message names it). If the RESTORE says that files are not "
        "available, do not set spark.sql.files.ignoreMissingFiles, as Delta advises there: it would bring back a table "
        f"that nobody can read. Plan again with on_existing='restart'. {_KEEP}"
    ),
    "TARGET_CONTENDED": "Pause other writers of the target. If a recover task has failed, run it again.",
    "TARGET_BUSY": "Look for another application that writes to the same target.",
    "MEMORY_LOST": (
        "Restore the folder that the message names, as it was after the last round, and clear the task: an older copy "
        "lacks keys. If there is none, plan again with on_existing='restart'."
    ),
    "RECORD_INVALID": (
        "If a newer version of the package has worked on the build, nothing is damaged: use that version and clear the "
        "task. Else restore the file or the commit that the message names and clear the task, or plan again with "
        f"on_existing='restart'. Or {_RESTORE} before the damaged commit. {_KEEP} {_KEYLESS}"
    ),
    "DOCUMENT_DAMAGED": (
        "Restore the file that the message names, or delete it: a heartbeat and an outcome are only shown, and a "
        "command can be given again. Delete a damaged attempt only after a newer attempt exists. No row is affected."
    ),
    "NOT_PLANNED": (
        "Run the plan task, also after a drop, then the tasks after it; or correct the target's location. If the "
        "message names a property that another writer has removed, set it first."
    ),
    "FENCED": (
        "Nothing to do if the newer attempt still runs, for example in another run of the DAG; else clear the task."
    ),
    "POSITION_REGRESSED": (
        f"{_RESTORE} before the damaged commit (the message names it). Or plan again with on_existing='restart'. "
        f"{_KEEP} {_KEYLESS}"
    ),
    "NOT_CONVERGING": (
        "Raise max_lag or the throttle, give Spark more cores, or slow the source's writers; then clear the task."
    ),
    "GATE_TIMEOUT": "Fulfil the condition that the message names, then clear the task.",
    "HANDOFF_REJECTED": "Clear consume_log and the approval task, both with the tasks after them: Airflow asks again.",
    "VERIFICATION_FAILED": (
        "If the message says so, run 'table-backfill repair TARGET --why REASON', which rewrites the keys that differ, "
        "then clear the verify task. Else do what the message says."
    ),
    "NOT_ALLOWED_NOW": "Nothing was changed. Run the task that the message names first, or drop the request.",
    "CANCELLED": "Clear the plan task: the build goes on from its last commit.",
    "INTERRUPTED": "The next try repeats the round once the command is no longer in force.",
    "CREDENTIALS_EXPIRED": (
        "The next try has the credentials that the connection or the environment has by then. If a round "
        "takes longer than they last, use an identity that renews them itself (a role of the machine or the pod)."
    ),
    "SOURCE_UNAVAILABLE": (
        "A command of table-backfill has to be given again, which is safe even if the first one "
        "arrived. Check the network, and addresses and credentials in the connection of the store or the brokers, and "
        "what they may do there."
    ),
    "NO_SPACE": (
        "Free space where the message says: in the target's store (VACUUM removes old versions of the target), in "
        "spark.local.dir of the driver and the executors, or for temporary files of the worker. The build goes on "
        "after its last commit."
    ),
    "EXECUTOR_LOST": (
        "If it happens again and again, give the executors more memory, or keep them longer (spot instances, dynamic "
        "allocation)."
    ),
    "APPLICATION_FAILED": "The log of the Spark application names the cause.",
}


def way_out(code: str, *, retry: bool = False, last_try: bool = False) -> str:
    """The way out of the error with this code; for an unknown one, where to look.

    ``retry``: whether another try of its task can help. ``last_try``: whether Airflow starts none.
    """
    said = WAYS_OUT.get(code, "See the log of the Spark application.")
    if not retry:
        return said
    left = "No retry is left: remove the cause, then clear the task with the tasks after it."
    return f"{left if last_try else 'Airflow tries again.'} {said}"


def told(error: BackfillError) -> dict[str, Any]:
    """The error as people are told it: as JSON, with its way out."""
    return {**error.to_json(), "way_out": way_out(error.code)}
