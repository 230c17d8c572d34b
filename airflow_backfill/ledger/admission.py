"""Whether a build may use a target, from its log alone: no JVM, no writes."""

from __future__ import annotations

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, SourceNotDelta, TargetExists
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable

OWNER = "airflow_backfill.name"
"""The table property with the name of the build that owns a target."""


def check_whole(control: ControlFolder, target: str) -> None:
    """TargetExists if a drop of the target has begun and has not ended."""
    if control.dropping:
        raise TargetExists(
            f"target: a drop of {target} has begun and has not ended, so files of the old build are gone and others "
            f"are left; unless it still runs, run 'table-backfill cancel {target} --drop --why REASON' to end it, then "
            "clear the task",
            target=target,
        )


def admit_target(log: DeltaLog, spec: BackfillSpec) -> TableMetadata | None:
    """The target's metadata, None if no table is there; TargetExists unless a build of this name owns it."""
    try:
        protocol, metadata = log.protocol_and_metadata()
    except SourceNotDelta:
        return None
    except (HistoryLost, RecordInvalid) as error:
        drop = f"if that is not possible, run 'table-backfill cancel {spec.target} --drop --why REASON'"
        by_hand = f"or, if no commit tells that the table is a build's, delete the folder {spec.target} yourself"
        restore = "; restore it from a copy" if isinstance(error, HistoryLost) else ""
        raise type(error)(f"{error.message}{restore}; {drop}, {by_hand}; then clear the task", **error.data) from error
    owner = metadata.configuration.get(OWNER)
    if owner != spec.name:
        whose = f"belongs to build {owner!r}, not to {spec.name!r}" if owner else "was not made by a table backfill"
        same = f"if it is the same build, whose task group was renamed, set name={owner!r}; else " if owner else ""
        raise TargetExists(
            f"target: {spec.target} exists and {whose}, and a build never changes such a table; {same}name another "
            "target, or move this table away",
            target=spec.target,
            owner=owner,
        )
    check_readable(protocol, f"the target {spec.target}")
    return metadata
