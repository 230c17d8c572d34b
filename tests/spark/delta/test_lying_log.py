"""A source whose log states another number of rows than its files have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.core.errors import ChangesIncomplete
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.mark.soak
@pytest.mark.parametrize("how", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("strategy", ["snapshot", "arrangement"])
def test_the_target_is_kept_by_a_recovery_and_a_repair(source: Source, tmp_path: Path, strategy: str, how: str) -> None:
    build = Build(source, tmp_path / "target", strategy=strategy)
    build.read()
    if how == "append":
        source.append(1000, 1100)
    elif how == "merge":
        source.merge(source.rows(200, 260, "merged"))
    else:
        source.rows(100, 300, "over").write.format("delta").mode("overwrite").save(source.path)
    states_a_row_more(source)
    for _ in range(2):
        with pytest.raises(ChangesIncomplete, match="clear the task once") as raised:
            build.consume_log()
        assert raised.value.data["expected"] == raised.value.data["read"] + 1
    build.repair(source.head)
    build.assert_equal_at(source.head)
    source.append(7000, 7010)
    build.upstream()
    build.assert_equal_at(source.head)


@pytest.mark.soak
def test_a_pinned_version_is_copied_as_its_files_are(source: Source, tmp_path: Path) -> None:
    states_a_row_more(source)
    build = Build(source, tmp_path / "target")
    build.hand_off()
    build.assert_equal_at(source.head)


def states_a_row_more(source: Source) -> None:
    """The newest commit says that its first new file has one row more than it has."""
    log = Path(source.path, "_delta_log")
    commit = log / f"{source.head:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    added = next(action["add"] for action in actions if "add" in action)
    stated = json.loads(added["stats"])
    added["stats"] = json.dumps({**stated, "numRecords": stated["numRecords"] + 1})
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in log.glob(f"*{source.head:020}*.crc"):
        checksum.unlink()
    source.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
