"""An incremental proof: what was read adds up to the source, and no wrong target passes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from airflow_backfill.core.attempts import attempt
from airflow_backfill.core.attempts.goals import RepairGoal, VerifyGoal
from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.delta.route import Footprint, Leg, Route
from airflow_backfill.core.errors import SourceReplaced, SourceUnavailable, VerificationFailed
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.digest import NONE
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.delta import changes
from airflow_backfill.spark.digest import observed
from airflow_backfill.spark.digest.digest import digested, digests_by
from airflow_backfill.spark.digest.observed import ObservedRows
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.strategies.table import TableRounds
from airflow_backfill.spark.target_table.apply import Txn, append
from airflow_backfill.spark.verify import proof as proofs
from airflow_backfill.spark.verify.piece_reader import PieceReader
from airflow_backfill.spark.verify.proof import _Side
from airflow_backfill.spark.verify.source_digests import SourceDigests
from tests.spark.build import Build
from tests.spark.history import Source, copied, live_again, vacuum
from tests.spark.kept import Kept

pytestmark = pytest.mark.spark

SELECT = ["upper(name) AS label", "id", "n + 1 AS more"]
WHERE = "part <> 2"
INCREMENTAL = ProofKind.INCREMENTAL


def read_again(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Collects the pieces that a proof has to read from the source."""
    pieces: list[object] = []
    read = PieceReader.read
    monkeypatch.setattr(PieceReader, "read", lambda self, piece: pieces.append(piece) or read(self, piece))
    return pieces


def rounds_of(build: Build) -> tuple[TableRounds, BuildState]:
    shell, state = Shell(build.spark, build.target), build.reader.state()
    shell.plan = state.plan
    assert isinstance(shell._rounds, TableRounds)
    return shell._rounds, state


def documents(build: Build) -> list[Path]:
    return sorted(Path(f"{build.target}.backfill", "digests").glob("*/*.json"))


def arrived(source: Source, target: Path, **spec: Any) -> Build:
    """A build at its hand-off epoch, after changes of every kind in small rounds."""
    build = Build(source, target, proof="incremental", **spec)
    build.size = RoundSize(rows=100)
    build.plan()
    source.sql("UPDATE $table SET $name = concat($name, '+'), $part = ($part + 1) % 3 WHERE $id % 7 = 1")
    build.snapshot()
    source.append(5000, 5020)
    source.sql("UPDATE $table SET $id = $id + 9000 WHERE $id % 13 = 5")
    source.sql("OPTIMIZE $table")
    build.apply_log()
    return build


@pytest.fixture(scope="module")
def kept(made: Source, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept[Build]]:
    """All changes are read from the change feed. Other routes leave out columns of removed rows."""

    def one_leg(footprints: Sequence[Footprint]) -> list[Leg]:
        return [Leg(EpochRange(footprints[0].epoch, footprints[-1].epoch + 1), Route.FEED, 0, "a test")]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changes, "choose", one_leg)
        yield Kept(made, tmp_path_factory.mktemp("kept"), partial(arrived, select=SELECT, where=WHERE))


@pytest.fixture
def build(kept: Kept[Build]) -> Build:
    """A build that was read by the feed alone, at its hand-off epoch."""
    return kept.restored()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["vectors", "no vectors", "odd names"])
def test_a_history_of_everything_is_proven(
    history: Callable[[str], Source], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = history(kind)
    source = copied(past, tmp_path / "source", through=1)
    select, where = (SELECT, WHERE) if kind != "odd names" else (None, None)
    build = Build(source, tmp_path / "target", proof="incremental", select=select, where=where)
    build.size = RoundSize(rows=250)
    build.read()
    live_again(source, past)
    build.apply_log()
    monkeypatch.setattr(proofs.Proof, "certificate", None)
    certificate = build.verify().certificate
    assert certificate is not None and certificate.kind is INCREMENTAL
    assert certificate.rows == build.rows().count()


def test_nothing_of_the_source_is_read_again(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = read_again(monkeypatch)
    certificate = build.verify().certificate
    assert pieces == [] and certificate is not None and certificate.kind is INCREMENTAL
    assert build.finish().certificate == certificate


def test_a_source_that_was_misread_once_is_found_by_a_sample(build: Build, caplog: Any) -> None:
    """Two stored digests are wrong, and add up to the right sum."""
    rounds, state = rounds_of(build)
    digests, epoch = rounds.source_digests, state.applied
    assert epoch is not None
    assert digests.reread(epoch, 0.0, 1) == 0
    for seed in range(4):
        assert 2 <= (digests.reread(epoch, 0.01, seed) or 0) < len(documents(build)) + 10
    whole = digests.reread(epoch, 1.0, 1)
    assert whole == state.plan.splits.files + epoch - state.plan.source.epoch
    one, other = documents(build)[:2]
    for file, sign in ((one, 1), (other, -1)):
        document = json.loads(file.read_text())
        document["digest"][0] += sign
        file.write_text(json.dumps(document))
    assert digests.reread(epoch, 1.0, 1) is None
    certificate = build.run(VerifyGoal(sample=1.0)).certificate
    assert certificate is not None and certificate.kind is ProofKind.FULL
    assert "read differently now" in caplog.text


def test_a_sample_is_counted_in_the_certificate(build: Build) -> None:
    certificate = build.run(VerifyGoal(sample=0.01)).certificate
    assert certificate is not None and certificate.kind is INCREMENTAL and certificate.reread >= 2


def test_a_chain_without_a_key_is_proven(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Build(source, tmp_path / "target", strategy="chain", key=None, proof="incremental")
    build.read()
    source.append(5000, 5020)
    source.append(5000, 5005)
    build.apply_log()
    pieces = read_again(monkeypatch)
    certificate = build.verify().certificate
    assert pieces == [] and certificate is not None and certificate.kind is INCREMENTAL


def test_a_follower_does_not_keep_a_file_for_each_round(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(source, tmp_path / "target", strategy="chain", key=None, proof="incremental")
    build.hand_off()
    for number in range(7):
        source.append(5000 + 10 * number, 5005 + 10 * number)
        build.upstream()
    before, pieces = {file: file.read_text() for file in documents(build)}, read_again(monkeypatch)
    rounds, state = rounds_of(build)
    digests = replace(rounds.source_digests, joined_epochs=3)
    digest = digests.at(state.applied)
    (joined,) = set(documents(build)) - before.keys()
    assert len(documents(build)) == len(before) - 2

    for file, text in before.items():
        file.write_text(text)  # as if it had been killed before it deleted them
    joined.unlink()
    assert digests.at(state.applied) == digest and pieces == []
    (certain,) = rounds.proof(state.positions)._digests([_Side("target", build.target, build.reader.log.head())])
    assert digest == sum(certain.values(), NONE)


def test_digests_that_are_gone_damaged_or_wrong(source: Source, tmp_path: Path, caplog: Any) -> None:
    build = arrived(source, tmp_path / "target", select=SELECT, where=WHERE)
    rounds, state = rounds_of(build)
    epoch, digest = state.applied, rounds.source_digests.at(state.applied)
    (certain,) = rounds.proof(state.positions)._digests([_Side("target", build.target, build.reader.log.head())])
    assert digest == sum(certain.values(), NONE)
    files = documents(build)
    for n, text in enumerate(["", "{}", '{"piece": 1, "digest": 2}', '{"piece": {}, "digest": [1, "ab"]}', None]):
        file = files[n % len(files)]
        file.unlink() if text is None else file.write_text(text)
        assert rounds.source_digests.at(epoch) == digest
    for file in documents(build):
        file.unlink()
    assert rounds.source_digests.at(epoch) == digest

    document = json.loads(documents(build)[0].read_text())
    document["digest"][0] += 1
    documents(build)[0].write_text(json.dumps(document))
    certificate = build.verify().certificate
    assert certificate is not None and certificate.kind is ProofKind.FULL
    assert "all of the source is read" in caplog.text


def test_a_wrong_row_is_never_proven(build: Build) -> None:
    rounds, state = rounds_of(build)
    proof, digest, good = (
        rounds.proof(state.positions),
        rounds.source_digests.at(state.applied),
        build.reader.log.head(),
    )
    for statement in (
        "UPDATE $target SET label = 'other' WHERE id = 21",
        "DELETE FROM $target WHERE id = 22",
        "INSERT INTO $target SELECT * FROM $target WHERE id = 24",
        "UPDATE $target SET more = NULL WHERE id = 25",
    ):
        build.spark.sql(statement.replace("$target", f"delta.`{build.target}`"))
        assert build.reader.log.head() > good
        assert proof.incremental(state.applied, build.reader.log.head(), 17, digest) is None
    build.spark.sql(f"RESTORE TABLE delta.`{build.target}` TO VERSION AS OF {good}")
    assert proof.incremental(state.applied, build.reader.log.head(), 17, digest) is not None


def unavailable(*_: object) -> None:
    raise SourceUnavailable("the store does not answer")


@pytest.mark.soak
def test_a_source_without_its_old_files_is_proven_in_full(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = arrived(source, tmp_path / "target")
    for file in documents(build):
        file.unlink()
    vacuum(source, source.head)
    with monkeypatch.context() as broken:
        broken.setattr(SourceDigests, "at", unavailable)
        broken.setattr(attempt, "TROUBLES", 0)
        with pytest.raises(SourceUnavailable):
            build.verify()
    certificate = build.verify().certificate
    assert certificate is not None and certificate.kind is ProofKind.FULL


def test_a_full_proof_may_be_asked_for(build: Build) -> None:
    certificate = build.run(VerifyGoal(full=True)).certificate
    assert certificate is not None and certificate.kind is ProofKind.FULL


def test_a_build_with_a_full_proof_stores_no_digests(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    assert documents(build) == []


def test_rows_are_digested_while_they_are_written(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, copy = source.at(source.head), str(tmp_path / "copy")
    rows.limit(0).write.format("delta").save(copy)

    def appended(version: int) -> ObservedRows:
        seen = ObservedRows.of(rows)
        append(seen.rows, copy, Txn("a", version), "{}")
        return seen

    assert appended(1).digest() == digests_by(digested(rows, rows.schema, RowHash.TYPED), F.lit(0))[0]
    monkeypatch.setattr(observed, "WAIT_SECONDS", 1)
    assert appended(1).digest() is None, "Delta has this transaction, and reads nothing"


@pytest.mark.soak
def test_a_recovery_to_another_history_is_proven_against_that_history(source: Source, tmp_path: Path) -> None:
    """The source is put back from a backup and written to, and somebody names an epoch that the target had once."""
    backup = shutil.copytree(source.path, tmp_path / "backup")
    build = Build(source, tmp_path / "target", proof="incremental")
    build.read()
    source.append(5000, 5020)
    build.consume_log()
    epoch = source.head
    shutil.rmtree(source.path)
    shutil.copytree(backup, source.path)
    source.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    source.append(6000, 6030)
    assert source.head == epoch
    shell = Shell(source.spark, build.target)
    with pytest.raises(SourceReplaced):
        shell.run(prove(None, RowHash.TYPED))
    build.recover(epoch)
    with pytest.raises(VerificationFailed):
        shell.run(prove(None, RowHash.TYPED))
    with pytest.raises(VerificationFailed):
        build.verify()
    build.run(RepairGoal())
    build.verify()
    build.finish()
    build.assert_equal_at(epoch)
