"""What the logs alone tell about whether a build may begin: no JVM, and nothing is written."""

from __future__ import annotations

from airflow_backfill.core.delta.epochs import FEED, has_feed
from airflow_backfill.core.errors import FeedOff, SourceNotDelta, TargetExists
from airflow_backfill.core.model.registry import lets_keys_be_missing
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import Commit, TableMetadata
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable

OWNER = "airflow_backfill.name"
"""The table property that says which build a target belongs to."""


def admit_source(log: DeltaLog, spec: BackfillSpec) -> tuple[Commit, TableMetadata]:
    """The newest commit and the metadata of a source that can be followed; SourceNotDelta, UnsupportedTable,
    RecordInvalid or FeedOff otherwise. Whether a chain needs a feed is seen later: where rows are only added it does
    not.
    """
    epoch = log.head()
    # The checksum beside a commit would do to know the table, but a damaged commit has to be seen now.
    newest = log.read(epoch)
    protocol, metadata = log.protocol_and_metadata()
    check_readable(protocol)
    if not lets_keys_be_missing(spec.strategy) and not has_feed(metadata):
        raise FeedOff(
            f"the source has no change data feed; switch it on: ALTER TABLE delta.`{spec.source}` SET TBLPROPERTIES "
            f"({FEED} = true). It helps from the version of that commit on",
            source=spec.source,
            version=epoch,
        )
    return newest, metadata


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
