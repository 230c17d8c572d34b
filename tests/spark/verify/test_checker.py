"""The independent checker: it finds what the proof finds, and reads certificates and tables by itself."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.verify.differences import compare
from checker import check
from tests.golden.archive import ARCHIVES, locked, unpack
from tests.spark.build import Build
from tests.spark.digest.test_digest import CASES, COLUMNS, CORRUPTIONS, Rows, by_case, made
from tests.spark.history import Source

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


def batches(spark: SparkSession, cases: list[Rows]) -> dict[int, pa.RecordBatch]:
    numbered = [[case, *row] for case, rows in enumerate(cases) for row in rows]
    table = spark.createDataFrame(numbered, StructType.fromDDL(f"case int, {COLUMNS}")).toArrow()
    found = {}
    for case in range(len(cases)):
        rows = table.filter(pa.compute.equal(table["case"], case)).drop_columns(["case"]).combine_chunks()
        found[case] = rows.to_batches()[0] if rows.num_rows else rows.schema.empty_table().to_batches()[0]
    return found


def test_in_a_thousand_tables_with_a_wrong_row_it_finds_what_the_proof_finds(spark: SparkSession) -> None:
    truth = [made(random.Random(seed)) for seed in range(CASES)]
    wrong = []
    for seed, rows in enumerate(truth):
        changed = [list(row) for row in rows]
        # Every second one is only in another order.
        random.Random(seed).shuffle(changed)
        if seed % 2:
            CORRUPTIONS[seed % len(CORRUPTIONS)](changed, random.Random(-seed - 1))
        wrong.append(changed)
    proven = set(compare(*(by_case(spark, cases, RowHash.TYPED) for cases in (truth, wrong))))
    here, there = batches(spark, truth), batches(spark, wrong)
    checked = set()
    for case in range(CASES):
        _, shown, count = check.compare([lambda n=case: check.hashed(here[n]), lambda n=case: check.hashed(there[n])])
        assert bool(shown) is (count > 0)
        if count:
            checked.add(case)
    assert checked == proven
    assert len(checked) == CASES // 2


def test_times_of_which_python_knows_nothing_are_compared_and_shown() -> None:
    def side(day: int) -> pa.RecordBatch:
        times = {"day": pa.array([0, day], pa.date32()), "at": pa.array([day * 86_400_000_000, 0], pa.timestamp("us"))}
        nested = pa.array([[day], None], pa.list_(pa.date32()))
        return pa.record_batch({**times, "days": nested})

    def compared(*days: int) -> tuple[int, list[tuple[str, dict[str, object]]], int]:
        return check.compare([lambda day=day: check.hashed(side(day)) for day in days])

    assert compared(6_662_024, 6_662_024) == (2, [], 0)
    nanoseconds = side(20_000).cast(side(0).schema.set(1, pa.field("at", pa.timestamp("ns", "UTC"))))
    assert check.compare([lambda: check.hashed(nanoseconds), lambda: check.hashed(side(20_000))]) == (2, [], 0)
    rows, shown, count = compared(6_662_024, -900_000)
    assert (rows, count) == (2, 4)
    assert ("only in the source", {"day": "20210-01-02", "at": "1970-01-01 00:00:00.000000", "days": None}) in shown


def run(target: str, *more: str) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "checker" / "check.py"), target, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def corrupt(build: Build, version: int, **fields: int) -> None:
    """Change fields of the certificate in the record of a commit."""
    commit = Path(build.target) / "_delta_log" / f"{version:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            text = json.loads(line["commitInfo"]["userMetadata"])
            text["certificate"] |= fields
            line["commitInfo"]["userMetadata"] = json.dumps(text)
    commit.write_text("\n".join(map(json.dumps, lines)))


def test_a_certificate_is_checked_and_a_wrong_one_is_refused(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", select=["id", "name", "n + 1 AS n"], where="id % 3 < 2")
    source.sql("DELETE FROM $table WHERE $id % 10 = 3")
    newest = build.hand_off().newest
    target, said, version = str(build.target), newest.record.certificate, newest.version
    assert run(target) == (
        0,
        f"equal: {said.rows} rows, in version {said.target_version} of the target, and version {said.epoch} of the "
        "source\n",
    )
    source.spark.sql(f"UPDATE delta.`{target}` SET name = 'wrong' WHERE id % 10 = 7")
    corrupt(build, version, target_version=version + 1)
    status, text = run(target)
    assert status == 1 and "'name': 'wrong'" in text and "only in the source" in text
    assert run(target, "--only", "id % 10 = 8")[0] == 0
    assert run(str(tmp_path / "nowhere"))[0] == 2


@pytest.mark.parametrize("proof", ["full", "incremental", "sampled"])
def test_a_corrupted_certificate_of_each_kind_is_refused(source: Source, tmp_path: Path, proof: str) -> None:
    build = Build(source, tmp_path / "target", proof=proof)
    planned = source.head
    source.sql("DELETE FROM $table WHERE $id % 10 = 3")
    state = build.hand_off()
    said, version = state.certificate, state.proven
    assert said is not None and said.kind.value == proof and said.epoch > planned
    assert (said.rows < build.rows().count()) is (proof == "sampled"), "a sample says nothing of the other rows"
    assert run(build.target)[0] == 0
    right = {"epoch": said.epoch, "target_version": said.target_version, "rows": said.rows}
    for wrong in ({"epoch": planned}, {"epoch": 999}, {"target_version": 1}, {"rows": said.rows + 1}):
        corrupt(build, version, **{**right, **wrong})
        known = proof == "sampled" and "rows" in wrong
        assert (run(build.target)[0] == 0) is known, wrong


def test_a_certificate_of_version_0_1_is_checked() -> None:
    with locked() as place:
        unpack(ARCHIVES / "format_1" / "followed.tar.gz", place)
        status, text = run(str(place / "followed" / "target"))
    assert (status, text) == (0, "equal: 238 rows, in version 6 of the target, and version 5 of the source\n")


def test_it_shares_no_code_with_the_package_and_is_short() -> None:
    text = (ROOT / "checker" / "check.py").read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in nodes}
    foreign = {name.split(".")[0] for name in names} - sys.stdlib_module_names
    assert foreign == {"pyarrow", "deltalake"}
    assert len(text.splitlines()) <= 200
