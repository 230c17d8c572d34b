"""The chain on Spark: as the snapshot, and its target gets many commits without rows."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill.spark.strategies import snapshot

CHECKPOINTS = 100
"""Commits from one of Delta's checkpoints to the next where a commit may come every two seconds: ten, as Delta has it,
would be a job over all files of the target every twenty seconds, and announcing waits for it.
"""


class Preparation(snapshot.Preparation):
    """One lane, whose application announces."""

    def one_lane(self) -> str | None:
        return "a chain's epochs are announced by the application that reads its snapshot"

    def properties(self) -> Mapping[str, str]:
        return {"delta.checkpointInterval": str(CHECKPOINTS)}


Rounds = snapshot.Rounds
