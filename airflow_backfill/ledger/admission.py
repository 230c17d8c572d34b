"""What the logs alone tell about whether a build may begin: no JVM, and nothing is written."""

from __future__ import annotations

from airflow_backfill.core.errors import SourceNotDelta, TargetExists
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable

OWNER = "airflow_backfill.name"
"""The table property that says which build a target belongs to."""


def admit_target(log: DeltaLog, spec: BackfillSpec) -> TableMetadata | None:
    """The target's metadata if it is this build's own, None if no table is there; otherwise a coded error."""
    try:
        protocol, metadata = log.protocol_and_metadata()
    except SourceNotDelta:
        return None
    owner = metadata.configuration.get(OWNER)
    if owner != spec.name:
        whose = f"belongs to build {owner!r}" if owner else "was not made by a table backfill"
        raise TargetExists(
            f"{spec.target} exists and {whose}; it is left alone: name another target, or move this one away",
            target=spec.target,
            owner=owner,
        )
    check_readable(protocol)
    return metadata
