"""Small files are merged between rounds where the table asks for it, and no round is lost or doubled by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.target_table import compaction
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark

ROUNDS = 1_000


def files(build: Build) -> int:
    detail = build.spark.sql(f"DESCRIBE DETAIL delta.`{build.target}`").first()
    assert detail is not None
    return int(detail["numFiles"])


def operations(build: Build) -> list[str | None]:
    log = build.reader.log
    return [log.read(version).operation for version in range(log.head() + 1)]


def followed(build: Build, source: Source, epochs: int) -> int:
    """Apply so many epochs in a round each; the most files that the target had."""
    most = 0
    for epoch in range(epochs):
        first = 20_000 + 10 * source.head
        source.append(first, first + 10)
        if epoch % 3 == 2:
            source.sql(f"UPDATE $table SET $n = {epoch} WHERE $id % 100 = {epoch % 100}")
        build.consume_log()
        most = max(most, files(build))
    return most


def asked(build: Build) -> None:
    build.spark.sql(f"ALTER TABLE delta.`{build.target}` SET TBLPROPERTIES ('{compaction.ASKED}' = 'true')")


def test_a_table_that_asks_for_it_stays_in_few_files(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(compaction, "LEAST_FILES", 4)
    build = Build(source, tmp_path / "target")
    build.read()
    first = followed(build, source, 2)
    assert "OPTIMIZE" not in operations(build), "nobody asked"
    asked(build)
    assert followed(build, source, 4) <= first + 4
    assert operations(build).count("OPTIMIZE") >= 1
    build.assert_equal_at(source.head)

    def broken(*_: object) -> None:
        raise RuntimeError("no space left")

    monkeypatch.setattr(compaction, "LEAST_FILES", 0)
    monkeypatch.setattr(compaction, "settings_for", broken)
    followed(build, source, 1)
    assert "no space left" in caplog.text
    build.assert_equal_at(source.head)


@pytest.mark.soak
def test_a_thousand_rounds(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    before = files(build)
    asked(build)
    for epoch in range(ROUNDS):
        if epoch % 3 == 2:
            source.sql(f"UPDATE $table SET $n = {epoch} WHERE $id < 100")
        else:
            source.append(1000 + 100 * epoch, 1100 + 100 * epoch)
    build.size = RoundSize(rows=100)  # of one epoch each
    build.consume_log()
    log, counts, written = Path(build.target, "_delta_log"), [0], 0
    for version in range(build.reader.log.head() + 1):
        actions = (log / f"{version:020}.json").read_text().splitlines()
        came, went = (sum(action.startswith(f'{{"{kind}":') for action in actions) for kind in ("add", "remove"))
        counts.append(counts[-1] + came - went)
        written += came + went > 0
    rounds = written - operations(build).count("OPTIMIZE")
    print(f"{rounds} rounds: at most {max(counts)} files, {files(build)} at the end, {before} before")
    assert rounds >= ROUNDS and counts[-1] == files(build)
    assert max(counts) < before + 2 * compaction.LEAST_FILES
    build.assert_equal_at(source.head)
