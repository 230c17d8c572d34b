"""Builds that the pictures do not show: of a topic, one that falls behind, one that catches up, one that was changed.
Made without Spark and Kafka, by ``python -m tests.plugin.topic_sights FOLDER`` in Airflow's environment.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.round_size import RoundSize
from tests.airflow.without_spark import foreign
from tests.ledger.json_topic import JsonTopic
from tests.plugin import database
from tests.plugin.sights import Scene, Stopped, rounds

TOPIC = "clicks"
WEEK_MS = 7 * 86_400_000


class Killed(JsonTopic):
    """Its application is killed after three commits of the history."""

    left = 4

    def answer(self, effect: fx.Effect) -> Any:
        if isinstance(effect, fx.CommitRecord):
            self.left -= 1
            if not self.left:
                raise Stopped
        return super().answer(effect)


def topic(place: Path) -> str:
    """A build that reads the history of a topic."""
    build = Killed(place / TOPIC, 700, 400, 0, 150, name=TOPIC)
    build.kept_ms = WEEK_MS
    build.oldest = {0: build.now - WEEK_MS + 3_600_000, 1: build.now - WEEK_MS + 7_200_000, 3: build.now}
    build.plan()
    build.land(0, 650, 700)
    me = database.worked(f"shop_{TOPIC}", f"{TOPIC}.snapshot", build.location, state="running")
    with suppress(Stopped):
        build.run(SnapshotGoal(0, 1, RoundSize(rows=200)), me)
    return build.location


def shown(place: Path) -> None:
    topic(place)
    scene = Scene(place)
    read: dict[str, Any] = {"plan": None, "snapshot": None}
    for name, every in (("behind", 2), ("gains", 24)):
        scene.build(name, {**read, "consume_log": rounds("consume_log", 24)}, ago=4, every=every)
    foreign(Path(scene.build("changed", {**read, "consume_log": rounds("consume_log", 4)}, ago=40, every=24)))


if __name__ == "__main__":
    shown(Path(sys.argv[1]))
