"""The chain (docs/behaviours/chain.md): a snapshot that announces epochs before the target has their data.

This module decides which epochs may be announced; ``attempts.announcer`` announces them in a lane of its own.
"""

from __future__ import annotations

from airflow_backfill.core.model.announcement import Announced
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.snapshot import Snapshot


class Chain(Snapshot):
    """Like the snapshot, but epochs are announced before their data. An append-only source needs no key."""

    name = "chain"
    why = "the log follows the snapshot in order; epochs are announced before their data is there"
    keyless = True
    announces = True
    on_spark = "airflow_backfill.spark.strategies.chain"

    def one_lane(self, spec: BackfillSpec) -> str | None:
        return "a chain's epochs are announced by the application that reads its snapshot"


def announceable(lane: Announced, source: Ahead, handoff: int | None) -> int:
    """The last epoch of the source that may be announced: at most the hand-off epoch, and before any epoch that stops
    the build.
    """
    last, stopping = lane.seen + source.count(lane.seen), source.stopping(lane.seen)
    if stopping is not None:
        last = stopping.number - 1
    return max(last if handoff is None else min(last, handoff), lane.seen)


def unannounced(state: BuildState, source: Ahead) -> bool:
    """Whether an epoch is due for an announcement, so that an application has to run."""
    lane = state.announced
    return lane is not None and lane.open and announceable(lane, source, state.handoff) > lane.seen
