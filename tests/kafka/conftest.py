"""One broker for all tests of a process, and a topic of its own for each test; ``tests/spark`` has both, too."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from demo.kafka.broker import Broker, Login
from demo.kafka.topic import Topic

LOGIN = Login("reader", "the right password")
GUEST, INGESTION = Login("guest", "of a guest"), Login("ingestion", "of an ingestion")
"""They may do nothing until a test allows it."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), LOGIN, guests=(GUEST, INGESTION)) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> Topic:
    """A topic that is not there yet."""
    return Topic(broker.servers, f"topic-{uuid.uuid4().hex[:12]}")
