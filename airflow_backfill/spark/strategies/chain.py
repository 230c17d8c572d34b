"""The chain on Spark: a snapshot whose target also gets many commits without rows."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill.spark.strategies import snapshot

CHECKPOINT_COMMITS = 100
"""Commits between two Delta checkpoints of the target. A chain may commit every two seconds, and announcements wait for
a checkpoint: with Delta's default of ten, one job over all files of the target would run every twenty seconds.
"""


class Preparation(snapshot.Preparation):
    """As of a snapshot, with checkpoints for the many commits that announce."""

    def properties(self) -> Mapping[str, str]:
        return {"delta.checkpointInterval": str(CHECKPOINT_COMMITS)}


Rounds = snapshot.Rounds
