"""The Delta features of tables that this package can follow by reading commit files."""

from __future__ import annotations

from airflow_backfill.core.errors import UnsupportedTable
from airflow_backfill.core.values.commit import Protocol

READER_VERSION = 3
WRITER_VERSION = 7

# Each of these changes types, data files, checkpoints or rules for writers, but not where commits are or what their
# actions mean. Left out on purpose: features that put commits elsewhere (catalogManaged, coordinatedCommits), redirect
# to another table (redirect...), or may move the list of files out of the commit (adaptiveMetadata).
KNOWN = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "geospatial",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)


def check_readable(protocol: Protocol, table: str = "the table") -> None:
    """Raise ``UnsupportedTable``, with the names, if the protocol has unknown versions or features. ``table``: what the
    message calls it.

    Writer features count too: coordinated commits are one, and hide the newest commits from a listing.
    """
    if protocol.reader_version > READER_VERSION or protocol.writer_version > WRITER_VERSION:
        raise UnsupportedTable(
            f"{table} needs reader version {protocol.reader_version} and writer version "
            f"{protocol.writer_version}, but this package supports {READER_VERSION} and {WRITER_VERSION} at most; "
            "upgrade this package",
            reader_version=protocol.reader_version,
            writer_version=protocol.writer_version,
        )
    unknown = sorted((protocol.reader_features | protocol.writer_features) - KNOWN)
    if unknown:
        raise UnsupportedTable(
            f"{table} uses the features {', '.join(unknown)}, which this package does not support; remove them with "
            "ALTER TABLE … DROP FEATURE, where Delta allows it",
            features=unknown,
        )
