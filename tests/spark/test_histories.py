"""The archives hold what this Delta would write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import histories
from tests.spark.history import Source, difference

pytestmark = pytest.mark.spark


@pytest.mark.soak
@pytest.mark.parametrize("kind", histories.ARCHIVED)
def test_made_anew_a_history_is_the_same(
    spark: SparkSession, history: Callable[[str], Source], kind: str, tmp_path: Path
) -> None:
    archived = history(kind)
    histories.make(spark, kind, tmp_path)
    anew = histories.source(spark, kind, tmp_path)
    assert commits(anew) == commits(archived)
    for version in range(anew.head + 1):
        assert difference(anew.at(version), archived.at(version)) == [], version


def commits(source: Source) -> list[tuple[str, Counter[str]]]:
    """Each one's operation, and how many actions of which kinds it has; files with a deletion vector apart."""
    found = []
    for version in range(source.head + 1):
        lines = Path(source.path, "_delta_log", f"{version:020}.json").read_text().splitlines()
        actions = [next(iter(json.loads(line).items())) for line in lines]
        kinds = Counter(f"{kind} by vector" if action.get("deletionVector") else kind for kind, action in actions)
        (operation,) = (action["operation"] for kind, action in actions if kind == "commitInfo")
        found.append((operation, kinds))
    return found
