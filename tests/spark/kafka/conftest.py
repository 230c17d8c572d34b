"""A topic's landing table, and builds of both."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from demo.kafka.topic import Topic
from tests.spark.kafka.topics import Landing, MakeBuild, TopicBuild


@pytest.fixture
def landing(topic: Topic, tmp_path: Path) -> Landing:
    return Landing(topic, tmp_path / "landing")


@pytest.fixture
def make_build(spark: SparkSession, landing: Landing, tmp_path: Path) -> MakeBuild:
    """Makes builds of the topic and its landing table, by default of one target."""
    return partial(TopicBuild, spark, landing, target=tmp_path / "target")
