"""A certificate is given for equal tables only, names what differs, and can be worked out in several attempts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.difference import keys_of
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.digest import digest
from airflow_backfill.spark.run.planner import OnExisting, Planner
from airflow_backfill.spark.source.source import DataFile
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.transform.transform import parse
from airflow_backfill.spark.verify import proof as proofs
from airflow_backfill.spark.verify.proof import Proof
from tests.spark.history import Source
from tests.spark.kept import Kept

pytestmark = pytest.mark.spark

SELECT = ["id", "concat(name, '!') AS name", "n"]


class Copy:
    """A target that holds what the source says at its head, made without the product."""

    def __init__(self, source: Source, place: Path) -> None:
        source.sql("DELETE FROM $table WHERE $id % 10 = 3")
        self.source, self.target, self.spark = source, str(place), source.spark
        spec = BackfillSpec.parse(
            {"name": "copy", "source": source.path, "target": self.target, "key": ["id"], "select": SELECT}
        )
        state, _ = Planner(self.spark, spec, 1, Attempt(1, "planner")).plan(OnExisting.FAIL)
        self.plan: Plan = state.plan
        rows = source.at(source.head).selectExpr(*SELECT)
        rows.repartition(3).write.format("delta").mode("append").save(self.target)

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("$target", f"delta.`{self.target}`"))

    @property
    def control(self) -> ControlFolder:
        return ControlFolder.beside(self.target)

    @property
    def parts(self) -> list[Path]:
        """What is stored of proofs."""
        return list(Path(f"{self.target}.backfill", "proofs").iterdir())

    @property
    def version(self) -> int:
        return Source(self.spark, self.target, self.source.columns).head

    @property
    def files(self) -> list[DataFile]:
        return SnapshotFiles(self.spark, self.target, self.version).files

    def proof(self, part_bytes: int = proofs.PART_BYTES) -> Proof:
        schema = self.source.at(self.source.head).schema
        transform = parse(self.spark, schema, self.plan.spec.select, self.plan.spec.where)
        return Proof(self.spark, self.plan, transform, self.control, part_bytes=part_bytes)

    def prove(self, part_bytes: int = proofs.PART_BYTES) -> Certificate:
        return self.proof(part_bytes).certificate(self.source.head, self.version, 17)


@pytest.fixture(scope="module")
def kept(made: Source, tmp_path_factory: pytest.TempPathFactory) -> Kept[Copy]:
    return Kept(made, tmp_path_factory.mktemp("kept"), Copy)


@pytest.fixture
def copy(kept: Kept[Copy]) -> Copy:
    return kept.restored()


def test_equal_tables_get_a_certificate(copy: Copy) -> None:
    certificate = copy.prove()
    rows = copy.spark.read.format("delta").load(copy.target).count()
    assert (certificate.epoch, certificate.target_version, certificate.rows) == (copy.source.head, copy.version, rows)
    assert certificate.at == 17


def corruption(name: str, statement: str, counts: dict[str, int], key: str, *, soak: bool = True) -> Any:
    return pytest.param(statement, counts, key, id=name, marks=pytest.mark.soak if soak else ())


# test_checker makes each kind of wrong row in each run.
CORRUPTIONS = [
    corruption("gone", "DELETE FROM $target WHERE id = 17", {"missing": 1}, "17", soak=False),
    corruption(
        "more", "INSERT INTO $target SELECT 100017L, name, n FROM $target WHERE id = 17", {"extra": 1}, "100017"
    ),
    corruption("twice", "INSERT INTO $target SELECT * FROM $target WHERE id = 17", {"extra": 1}, "17", soak=False),
    corruption("other", "UPDATE $target SET name = 'other' WHERE id = 17", {"stale": 1}, "17"),
    corruption("null", "UPDATE $target SET n = NULL WHERE id = 17", {"stale": 1}, "17"),
]


@pytest.mark.parametrize(("statement", "counts", "key"), CORRUPTIONS)
def test_one_wrong_row_is_named(copy: Copy, statement: str, counts: dict[str, int], key: str) -> None:
    copy.sql(statement)
    with pytest.raises(VerificationFailed) as failed:
        copy.prove()
    assert failed.value.data["counts"] == counts
    assert failed.value.data["sample"] == [{"kind": next(iter(counts)), "key": {"id": key}}]
    assert keys_of(failed.value)[0].startswith(f"  id={key}: ")


def test_parts_say_what_the_whole_says(copy: Copy) -> None:
    whole = copy.prove()
    in_parts = copy.prove(part_bytes=1)
    assert in_parts == whole
    assert len(copy.parts) > 4


def test_an_attempt_goes_on_with_the_parts_that_are_left(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, range]] = []
    ended: list[tuple[str, range]] = []
    digests_of = Proof._digests_of

    def counted(self: Proof, part: Any) -> Any:
        begun.append((part.side.name, part.indices))
        if len(begun) == 3:
            raise KeyboardInterrupt
        found = digests_of(self, part)
        ended.append((part.side.name, part.indices))
        return found

    monkeypatch.setattr(Proof, "_digests_of", counted)
    with pytest.raises(KeyboardInterrupt):
        copy.prove(part_bytes=1)
    refused, first = begun[2], list(ended)
    assert first, "a part ended before the third began"
    # The next attempt claims the build first, which is a version of the target without a file.
    apply.empty(copy.spark, copy.target, apply.Txn("claim", 1), "{}")
    read: list[str] = []
    monkeypatch.setattr(proofs, "digests", lambda *args: read.append("") or digest.digests(*args))
    certificate = copy.prove(part_bytes=1)
    assert refused in ended
    assert len(read) == len(set(ended)) - len(first)
    assert copy.prove(part_bytes=1) == certificate
    assert len(read) == len(set(ended)) - len(first)


def test_parts_of_another_version_are_not_taken(copy: Copy) -> None:
    copy.prove()
    copy.sql("UPDATE $target SET name = 'other' WHERE id = 17")
    with pytest.raises(VerificationFailed):
        copy.prove()


def test_a_file_of_which_other_rows_are_deleted_is_another_part(copy: Copy) -> None:
    copy.prove()
    before = {file.path: file.deleted for file in copy.files}
    for key in (17, 18):
        copy.sql(f"DELETE FROM $target WHERE id = {key}")
    after = {file.path: file.deleted for file in copy.files}
    assert before.keys() == after.keys() and before != after, "the rows were to go by deletion vectors"
    with pytest.raises(VerificationFailed) as failed:
        copy.prove()
    assert failed.value.data["counts"] == {"missing": 2}


def test_a_damaged_part_is_no_proof(copy: Copy) -> None:
    copy.prove()
    for text in ('{"1": [2]}', '{"first": [2, "ab"]}', "[2]"):
        for file in copy.parts:
            file.write_text(text)
        with pytest.raises(RecordInvalid, match="proofs"):
            copy.prove()


def of_keys(copy: Copy) -> None:
    """As a repair reads them."""
    with copy.proof().differing_keys(copy.source.head, copy.version, range(proofs.BUCKETS)) as keys:
        keys.count()


READERS: dict[str, Callable[[Copy], object]] = {
    "all rows": Copy.prove,
    "some rows": lambda copy: copy.proof().sampled(copy.source.head, copy.version, 17, 1.0),
    "keys": of_keys,
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("table", ["source", "target"])
def test_a_table_that_lost_a_file_is_no_proof(copy: Copy, read: str, table: str) -> None:
    """Only if it is the source's, a newer epoch helps."""
    folder = Path(copy.source.path if table == "source" else copy.target)
    max(folder.glob("*.parquet"), key=lambda file: file.stat().st_size).unlink()
    with pytest.raises(HistoryLost) as raised:
        READERS[read](copy)
    assert ("To prove a newer one" in raised.value.message) is (table == "source")
