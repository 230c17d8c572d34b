"""A key that several rows of the source have is an error with its epoch, until the source is put right; then all is."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from airflow_backfill.core.attempts.goals import RepairGoal
from airflow_backfill.core.errors import DuplicateKey, VerificationFailed
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_rows_that_are_added_with_keys_that_are_there(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    source.append(0, 3, "again")
    epoch = source.head
    source.append(5000, 5003)
    with pytest.raises(DuplicateKey) as raised:
        build.consume_log()
    assert raised.value.data["count"] == 3
    assert raised.value.data["sample"] == [{"id": str(n), "epoch": str(epoch)} for n in range(3)]
    assert "delete all rows but one" in raised.value.message
    source.sql("DELETE FROM $table WHERE $name LIKE 'again%'")
    whole, build.size = build.size, RoundSize(rows=3)
    with pytest.raises(DuplicateKey, match="larger rounds"):
        build.consume_log()
    build.size = whole
    build.consume_log()
    build.assert_equal_at(source.head)


@pytest.mark.soak
def test_the_log_phase_goes_on_when_the_older_row_is_deleted(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", where="n IS NULL OR n % 2 = 0")
    build.read()
    source.sql("UPDATE $table SET $name = 'changed' WHERE $id = 7")
    # One of them outside of the filter, where the target has no row; and both new in the log.
    source.append(2, 4, "again")
    source.append(6000, 6001)
    source.append(6000, 6001, "again")
    with pytest.raises(DuplicateKey) as raised:
        build.consume_log()
    assert {one["id"] for one in raised.value.data["sample"]} == {"2", "6000"}
    source.sql("DELETE FROM $table WHERE $name LIKE 'made%' AND ($id IN (2, 3, 6000))")
    assert build.complete().phase is Phase.FINISHED
    build.assert_equal_at(source.head)
    assert build.rows().where("name LIKE 'again%'").count() == 2


@pytest.mark.soak
def test_a_key_twice_in_an_epoch_that_is_applied_in_part_has_a_way_out(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    source.rows(300, 330).union(source.rows(0, 1, "again")).write.format("delta").mode("append").save(source.path)
    twice = source.head
    build.size = RoundSize(rows=8)
    with pytest.raises(DuplicateKey, match="delete all rows but one"):
        build.consume_log()
    source.sql("DELETE FROM $table WHERE $name LIKE 'again%'")
    with pytest.raises(DuplicateKey, match=f"recover .* --epoch {source.head}"):
        build.consume_log()

    build.recover(twice)
    with pytest.raises(VerificationFailed):
        build.verify()
    with pytest.raises(DuplicateKey, match="nothing is repaired"):
        build.run(RepairGoal())

    assert build.repair(source.head).phase is Phase.FINISHED
    build.assert_equal_at(source.head)


@pytest.mark.soak
@pytest.mark.parametrize(("where", "steps"), [(None, 2), (None, 12), ("n > 1", 12)], ids=["few", "many", "filtered"])
def test_random_changes_of_few_keys(source: Source, tmp_path: Path, where: str | None, steps: int) -> None:
    """Whatever is done to few keys, the target is the source, or the error names keys that are repeated."""
    rng = random.Random(7)
    source.sql("DELETE FROM $table WHERE $id >= 6")
    build = Build(source, tmp_path / "target", where=where)
    build.hand_off()
    refused = 0
    for step in range(steps):
        for n in range(rng.randrange(1, 4)):
            change(source, rng, f"{step}-{n}")
        rows = source.at(source.head).collect()
        repeated = {str(key) for key, count in Counter(row["id"] for row in rows).items() if count > 1}
        try:
            build.upstream()
        except DuplicateKey as error:
            refused += 1
            assert {one["id"] for one in error.data["sample"]} <= repeated
            for key in repeated:
                names = sorted(row["name"] for row in rows if str(row["id"]) == key)
                gone = ", ".join(f"'{name}'" for name in names[1:])
                source.sql(f"DELETE FROM $table WHERE $id = {key} AND $name IN ({gone})")
            build.upstream()
        else:
            assert where or not repeated
        build.assert_equal_at(source.head)
    assert refused


def change(source: Source, rng: random.Random, name: str) -> None:
    """One commit; each name is given to one row at most."""
    key, n = rng.randrange(8), rng.randrange(4)
    row = f"CAST({key} AS BIGINT), 0, '{name}', {n}"
    statement = rng.choice(
        [
            f"INSERT INTO $table VALUES ({row})",
            f"INSERT INTO $table VALUES ({row}), (CAST({(key + 1) % 8} AS BIGINT), 1, '{name}+', {n})",
            f"DELETE FROM $table WHERE $id = {key}",
            f"DELETE FROM $table WHERE $id = {key} AND $n > 1",
            f"UPDATE $table SET $n = {n} WHERE $id = {key}",
            f"UPDATE $table SET $id = {(key + 3) % 8} WHERE $id = {key}",
            f"INSERT INTO $table REPLACE WHERE $id = {key} VALUES ({row})",
            "OPTIMIZE $table",
        ]
    )
    source.sql(statement)
