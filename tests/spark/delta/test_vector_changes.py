"""Deletion vectors whose difference Delta cannot describe: its own change feed fails on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.spark.delta import changes, vector_changes
from airflow_backfill.spark.delta.changes import read_changes
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.explain.explanation import Explanation
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import Build
from tests.spark.delta.test_changes import by_difference, check
from tests.spark.history import Source

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 500_000


@pytest.fixture
def masked(source: Source) -> Source:
    """One of the files has many rows, and its second deletion vector hides many more than its first one."""
    source.append(1_000, 1_000 + ROWS)
    source.sql("DELETE FROM $table WHERE $id >= 1000 AND $id % 100 = 1")
    source.sql("DELETE FROM $table WHERE $id >= 1000 AND $id % 10 = 3")
    return source


def test_what_the_feed_cannot_read_is_read(masked: Source) -> None:
    head = masked.head
    feed = masked.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", head)
    with pytest.raises(Py4JJavaError, match="UTFDataFormatException"):
        feed.load(masked.path).count()
    masked.sql(f"RESTORE TABLE $table TO VERSION AS OF {head - 1}")
    for epoch, kind, feed_is_on in ((head, "delete", True), (head + 1, "insert", False)):
        epochs = EpochRange(epoch, epoch + 1)
        found = read_changes(masked.spark, masked.path, epochs, masked.columns, [masked.key], feed=feed_is_on)
        counted = found.counted()
        found.prove(counted)
        assert counted == {(epoch, kind): ROWS // 10}


@pytest.mark.soak
def test_a_build_goes_on_and_is_explained(masked: Source, tmp_path: Path) -> None:
    build = Build(masked, tmp_path / "target", proof="incremental")
    build.read()
    masked.sql("DELETE FROM $table WHERE $id >= 1000 AND $id % 10 = 5")
    assert build.consume_log().applied == masked.head
    masked.sql(f"RESTORE TABLE $table TO VERSION AS OF {masked.head - 1}")
    build.catch_up()
    certificate = build.verify().certificate
    assert certificate.epoch == masked.head and certificate.kind is ProofKind.INCREMENTAL
    found = Explanation(masked.spark, build.reader, Shell(masked.spark, build.target).run(load())).of(["id=1005"], None)
    assert [one["change"] for one in found["changes"]] == ["delete", "insert"] and found["verdict"] == "equal"


@pytest.fixture
def by_number(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """As if no difference could be described. Yields how many files were compared by the numbers of their rows."""
    compared: list[int] = []
    by_number = vector_changes._by_number
    monkeypatch.setattr(DeltaVersion, "can_read", lambda *_: False)
    for module in (vector_changes, changes):
        monkeypatch.setattr(module, "MANY_ROWS", 0)
    monkeypatch.setattr(
        vector_changes,
        "_by_number",
        lambda version, epoch, pairs: compared.append(len(pairs)) or by_number(version, epoch, pairs),
    )
    yield compared


@pytest.mark.parametrize("kind", [pytest.param("vectors", marks=pytest.mark.soak), "odd names"])
def test_any_history_by_the_numbers_of_rows(
    history: Callable[[str], Source], by_number: list[int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = history(kind)
    for after in range(0, source.head, 8):
        # In turn, changes are many and few.
        monkeypatch.setattr(vector_changes, "FEW_ROWS", 1_000 * (after // 8 % 2))
        check(source, after, min(after + 8, source.head), by_difference)
    assert by_number


def test_other_files_of_the_same_epoch_are_read_as_ever(source: Source, by_number: list[int]) -> None:
    source.sql("DELETE FROM $table WHERE $id = 3")
    before = source.head
    source.sql("DELETE FROM $table WHERE $id IN (4, 120, 200)")
    source.append(900, 905)
    source.sql("UPDATE $table SET $name = 'other' WHERE $id < 9")
    check(source, before, source.head, by_difference)
    assert by_number == [1], "one of the files had a vector before"
