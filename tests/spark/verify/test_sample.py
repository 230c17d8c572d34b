"""A sampled proof finds what differs in its ranges, and a wrong number of rows anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import KeyInvalid, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.state.effect import VerifyTarget
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.verify import proof as proofs
from airflow_backfill.spark.verify.sample import MOST_RANGES, Range, chosen_ranges
from tests.spark.build import Build, no_rows
from tests.spark.history import Source

pytestmark = pytest.mark.spark

SELECT = ["name", "id", "n"]
WHERE = "part <> 5"


class Arrived:
    """A build at its hand-off. What others do to its target afterwards would stop its tasks, but not the proof."""

    def __init__(self, source: Source, target: Path, **spec: Any) -> None:
        self.build = Build(source, target, proof="sampled", **spec)
        self.build.plan()
        for start in range(10_000, 10_600, 100):
            source.append(start, start + 100)
        source.sql("DELETE FROM $table WHERE $id % 13 = 6")
        self.build.snapshot()
        self.build.consume_log()
        self.state = self.build.catch_up()
        shell = Shell(self.build.spark, self.build.target)
        shell.plan = self.state.plan
        self.rounds = shell._rounds

    def proven(self, share: float) -> Certificate:
        head = self.build.reader.log.head()
        assert self.state.applied is not None
        wanted = VerifyTarget(
            self.state.applied, head, self.state.positions, RowHash.TYPED, ProofKind.SAMPLED, 0, share
        )
        return self.rounds.certificate(wanted, 17)

    def equal(self, share: float) -> bool:
        assert self.state.applied is not None
        proof, head = self.rounds.proof(self.state.positions), self.build.reader.log.head()
        return proof.sampled(self.state.applied, head, 17, share) is not None

    @contextmanager
    def broken(self, statement: str) -> Iterator[None]:
        table, good = f"delta.`{self.build.target}`", self.build.reader.log.head()
        self.build.spark.sql(statement.replace("$target", table))
        yield
        self.build.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {good}")


CHANGED, TWICE = (
    "UPDATE $target SET name = 'other' WHERE id = 10121",
    "INSERT INTO $target SELECT * FROM $target WHERE id = 10324",
)
MARKED = [(("10321",), ("10330",)), (("10121",), ("10121",)), (("10222",), ("10230",))]
LOST, FOREIGN = (
    "DELETE FROM $target WHERE id = 10222",
    "INSERT INTO $target SELECT name, 99999999L, n FROM $target WHERE id = 10424",
)


@pytest.mark.soak
@pytest.mark.parametrize("statements", [(CHANGED, FOREIGN), (LOST, TWICE)])
def test_a_sample_finds_what_lies_in_it(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, str]
) -> None:
    """With a filter, so that rows cannot be counted from the logs."""
    arrived = Arrived(source, tmp_path / "target", select=["name", "id", "n"], where="part <> 5")
    rows = arrived.build.spark.read.format("delta").load(arrived.build.target).count()
    certificate = arrived.build.verify().certificate
    assert certificate is not None and certificate.kind is ProofKind.SAMPLED
    assert arrived.proven(1.0).rows == rows
    assert 0 < arrived.proven(0.01).rows < rows
    for statement in statements:
        with arrived.broken(statement), monkeypatch.context() as chosen:
            assert not arrived.equal(1.0), statement
            chosen.setattr(proofs, "chosen_ranges", lambda *_: MARKED)
            chosen.setattr(proofs, "narrow", lambda *_: True)
            assert arrived.equal(1.0) == (statement == FOREIGN), statement


@pytest.mark.soak
def test_a_lost_row_is_found_by_the_numbers_of_rows_and_named(source: Source, tmp_path: Path) -> None:
    arrived = Arrived(source, tmp_path / "target")
    assert arrived.equal(0.0001)
    with arrived.broken(f"DELETE FROM $target WHERE {source.key} = 10310"):
        with pytest.raises(VerificationFailed) as failed:
            arrived.proven(0.0001)
        assert failed.value.data["sample"] == [{"kind": "missing", "key": {source.key: "10310"}}]


@pytest.mark.soak
def test_where_files_hold_no_ranges_keys_are_chosen_by_their_hash(spark: SparkSession, tmp_path: Path) -> None:
    """A range of one file would be the whole table."""
    source = no_rows(spark, str(tmp_path / "mixed"), ("id", "part", "name", "n"))
    source.rows(0, 2000).repartition(4, "name").write.format("delta").mode("append").save(source.path)
    arrived = Arrived(source, tmp_path / "target")
    certificate = arrived.proven(0.1)
    assert certificate.kind is ProofKind.SAMPLED and 150 < certificate.rows < 350, "about 250 of 2,560"
    with arrived.broken("UPDATE $target SET name = 'other' WHERE id % 5 = 0"):
        assert not arrived.equal(0.1)


def test_a_key_without_an_order_is_refused_by_the_plan(source: Source, tmp_path: Path) -> None:
    source.sql("ALTER TABLE $table ADD COLUMN flag BOOLEAN")
    build = Build(source, tmp_path / "target", proof="sampled", key=["flag", source.key])
    with pytest.raises(KeyInvalid, match=r"flag.*has no order"):
        build.plan()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(("files", "share"), [(1, 0.01), (4, 0.01), (4, 1.0), (40_000, 0.01), (1_000_000, 0.5)])
def test_few_ranges_of_many_files(files: int, share: float) -> None:
    """Of each size of table at least the share of its parts, and never more ranges than Spark takes."""

    class Files:
        def spans(self, parts: int) -> list[Range]:
            return [((str(n),), (str(n),)) for n in range(min(files, parts))]

    found = chosen_ranges(Files(), share, random.Random(3))  # type: ignore[arg-type]
    assert share * min(files, MOST_RANGES / share) <= len(found) == len(set(found)) <= MOST_RANGES + 1
