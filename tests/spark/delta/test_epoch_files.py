"""The file actions of epochs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pytest

from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.ledger.open_store import wrapped
from airflow_backfill.spark.delta.epoch_files import action_lines, read_epochs
from tests.ledger.json_target import JsonBuild


def test_a_table_that_is_replaced_between_two_reads_of_its_commits_is_looked_at_again(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.write(times=2)
    source, head = build.spec.table, build.source.head
    epochs = EpochRange(head - 1, head + 1)
    wanted = {"cdc": {file for one in read_epochs(None, source, epochs) for file in one.changes}}  # type: ignore[arg-type]
    assert action_lines(None, source, epochs, wanted)["cdc"].keys() == wanted["cdc"] != set()  # type: ignore[arg-type]
    first, last = (Path(source, LOG, commit_name(epoch)) for epoch in epochs)
    last.write_text(first.read_text())
    with pytest.raises(SourceUnavailable, match="other files than a moment ago"):
        action_lines(None, source, epochs, wanted)  # type: ignore[arg-type]


class _Together(LocalStore):
    """Answers only if so many commits are asked for at the same time."""

    def __init__(self, root: str, count: int) -> None:
        super().__init__(root)
        self._all = Barrier(count, timeout=20)

    def chunks(self, name: str) -> Iterator[bytes]:
        self._all.wait()
        return super().chunks(name)


def test_many_commits_are_requested_at_once_and_come_in_their_order(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.write(times=16)
    source, epochs = build.spec.table, EpochRange.after(build.source.head - 16, build.source.head)
    with wrapped(lambda store: _Together(store.url, 16)):
        found = read_epochs(None, source, epochs)  # type: ignore[arg-type]
    assert [one.epoch for one in found] == list(epochs)
    assert found == [one for epoch in epochs for one in read_epochs(None, source, EpochRange(epoch, epoch + 1))]  # type: ignore[arg-type]
