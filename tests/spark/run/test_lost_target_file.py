"""A data file of the target that is gone: the build goes on from the version that did not have it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import VerifyGoal
from airflow_backfill.core.errors import FileDamaged, HistoryLost
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.application import work
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.phases import parser
from tests.spark.build import Build
from tests.spark.history import Source, vacuum

pytestmark = pytest.mark.spark


@pytest.mark.soak
@pytest.mark.parametrize("damaged", [False, True])
def test_a_build_goes_on_without_a_file_of_the_target(source: Source, tmp_path: Path, damaged: bool) -> None:
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=5)
    build.plan()
    build.first_rounds(1)
    kept = set(Path(build.target).glob("*.parquet"))
    build.first_rounds(2)
    lost = min(set(Path(build.target).glob("*.parquet")) - kept)
    build.snapshot()
    build.apply_log()
    lost.write_bytes(b"nothing") if damaged else lost.unlink()
    with pytest.raises(FileDamaged if damaged else HistoryLost) as raised:
        build.verify()
    assert lost.name in raised.value.message
    assert build.led_back(raised.value).phase.value == "snapshot"
    build.snapshot()
    build.complete()
    build.assert_equal_at(source.head)


@pytest.mark.soak
def test_a_build_goes_on_without_all_files_of_the_target_at_once(source: Source, tmp_path: Path) -> None:
    """As a rule of a bucket leaves it that deletes old objects. The file that a round misses is not the oldest one."""
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=20)
    build.read()
    for file in Path(build.target).glob("*.parquet"):
        file.unlink()
    source.sql("UPDATE $table SET $name = 'other'")
    with pytest.raises(HistoryLost) as raised:
        build.consume_log()
    build.led_back(raised.value)
    build.snapshot()
    build.complete()
    build.assert_equal_at(source.head)


def test_a_proof_reads_the_newest_version_if_the_target_is_rewritten_and_vacuumed_meanwhile(
    source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=100)
    build.read()
    build.apply_log()
    shell, proofs = Shell(build.spark, build.target), 0

    def answer(effect: fx.Effect) -> Any:
        nonlocal proofs
        if isinstance(effect, fx.VerifyTarget):
            proofs += 1
            if proofs == 1:
                table = Source(build.spark, build.target, source.columns)
                table.sql("OPTIMIZE $table")
                vacuum(table, table.head)
        return shell.answer(effect)

    state = drive(run(VerifyGoal(), build.attempt()), answer)
    assert proofs == 2 and state.certificate is not None
    build.finish()
    build.assert_equal_at(source.head)


def proven(build: Build) -> Any:
    options = parser("prove").parse_args(["--target", build.target])
    return work("prove", options, build.spark, build.attempt())


def test_a_proof_reads_again_what_an_earlier_one_has_read(source: Source, tmp_path: Path) -> None:
    """Digests beside the target are of a proof that has not ended: a file may have been lost since."""
    build = Build(source, tmp_path / "target")
    build.hand_off()
    assert proven(build)["epoch"] == proven(build)["epoch"] == source.head
    min(Path(build.target).glob("*.parquet")).unlink()
    with pytest.raises(HistoryLost, match="RESTORE TABLE"):
        proven(build)


@pytest.mark.soak
def test_a_copy_of_the_target_is_proven_and_followed_where_it_is(source: Source, tmp_path: Path) -> None:
    """A backup that was restored elsewhere, and lacks a file: the table where it was planned is whole."""
    build = Build(source, tmp_path / "target")
    build.hand_off()
    for end in "", ".backfill":
        shutil.copytree(f"{build.target}{end}", f"{tmp_path}/copy{end}")
    copy = Build(source, tmp_path / "copy")
    copy._generation = build._generation
    source.append(9000, 9010)
    before = build.reader.log.head()
    copy.upstream()
    copy.assert_equal_at(source.head)
    min(Path(copy.target).glob("*.parquet")).unlink()
    with pytest.raises(HistoryLost, match=f"RESTORE TABLE delta.`{copy.target}`"):
        proven(copy)
    assert build.reader.log.head() == before
