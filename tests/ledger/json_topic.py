"""A build of a topic in a folder, on a model of its broker and its landing table: without Spark and without Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.topic_model import TopicModel
from tests.ledger.json_target import JsonBuild


class JsonTopic(TopicModel, JsonBuild):
    """``JsonBuild`` of the topic "clicks", whose partition i has the offsets below ``ends[i]``."""

    def __init__(self, folder: Path, *ends: int, **spec: Any) -> None:
        self.ends, self.landed = list(ends), {}
        more = {"key": [], "strategy": "source", "topic": {"name": "clicks"}, **spec}
        JsonBuild.__init__(self, folder, (), more=more)
