"""What plan refuses, before a byte of the target is written; and what it does about a build that is there already."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import CancelGoal, SnapshotGoal
from airflow_backfill.core.errors import BackfillError, RecordInvalid, SourceUnavailable
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.forecast import described
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.preflight import table as table_checks
from airflow_backfill.spark.preflight.table import Preflight, check_keys
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting, Planner
from airflow_backfill.spark.session.temporary_settings import settings_for
from airflow_backfill.spark.target_table import apply
from tests.spark.history import Source
from tests.spark.run.lottery import given

pytestmark = pytest.mark.spark

FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """A source with a feed: 100 rows in 4 files."""
    path = str(tmp_path / "source")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v INT, name STRING) USING delta {FEED}")
    spark.range(0, 100, 1, 4).selectExpr("id", "int(id % 7) v", "concat('n', id) name").write.format("delta").mode(
        "append"
    ).save(path)
    return path


class Plans:
    """Plans builds of one target, with a generation that grows."""

    def __init__(self, spark: SparkSession, source: str, target: Path) -> None:
        self.spark, self.source, self.target, self.generation = spark, source, str(target), 0

    def spec(self, **options: Any) -> BackfillSpec:
        given = {"name": "t", "source": self.source, "target": self.target, "key": ["id"], **options}
        return BackfillSpec.parse(given)

    def me(self) -> Attempt:
        self.generation += 1
        return Attempt(self.generation, f"attempt-{self.generation}")

    def plan(self, on_existing: OnExisting = OnExisting.RESUME, lanes: int = 1, **options: Any) -> BuildState:
        state, _ = Planner(self.spark, self.spec(**options), lanes, self.me()).plan(on_existing)
        return state

    def refused(self, code: str, said: str = "", on_existing: OnExisting = OnExisting.RESUME, **options: Any) -> Any:
        """The data of the error that ends the plan for good."""
        with pytest.raises(BackfillError, match=said) as refused:
            self.plan(on_existing, **options)
        assert (refused.value.code, refused.value.retry) == (code, False)
        return refused.value.data


@pytest.fixture
def plans(spark: SparkSession, table: str, tmp_path: Path) -> Plans:
    return Plans(spark, table, tmp_path / "target")


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


REFUSED = {
    "key column that does not exist": ({"key": ["nope"]}, "KEY_INVALID"),
    "key column with quotes and a semicolon": ({"key": ["id`; DROP TABLE x; --"]}, "KEY_INVALID"),
    "key that select loses": ({"select": ["v", "name"]}, "KEY_INVALID"),
    "key that select changes": ({"select": ["id + 1 AS id", "v"]}, "KEY_INVALID"),
    "key that does not identify rows": ({"key": ["v"]}, "KEY_DUPLICATE"),
    "random condition": ({"where": "rand() < 0.5"}, "EXPRESSION_INVALID"),
    "clock in the condition": ({"where": "current_timestamp() > timestamp '2020-01-01'"}, "EXPRESSION_INVALID"),
    "subquery": ({"where": "id IN (SELECT 1)"}, "EXPRESSION_INVALID"),
    "condition that does not parse": ({"where": "v >"}, "EXPRESSION_INVALID"),
    "two statements": ({"where": "1 = 1; DROP TABLE x"}, "EXPRESSION_INVALID"),
    "condition that is no condition": ({"where": "v + 1"}, "EXPRESSION_INVALID"),
    "column that does not exist": ({"select": ["id", "nope"]}, "EXPRESSION_INVALID"),
    "the name of Spark's own column": ({"select": ["id", "v AS _Metadata"]}, "EXPRESSION_INVALID"),
    "Java by reflection": ({"select": ["id", "reflect('java.lang.System', 'getenv') AS e"]}, "EXPRESSION_INVALID"),
    "unknown name in select twice": ({"select": ["id", "v", "name AS V"]}, "EXPRESSION_INVALID"),
}


@pytest.mark.parametrize("options, code", REFUSED.values(), ids=REFUSED)
def test_a_refused_plan_leaves_nothing(plans: Plans, tmp_path: Path, options: dict[str, Any], code: str) -> None:
    before = _fingerprint(tmp_path)
    plans.refused(code, **options)
    assert _fingerprint(tmp_path) == before


@pytest.mark.parametrize("whose", ["source", "target"])
def test_a_log_that_cannot_be_read_leaves_the_target_as_it_was(plans: Plans, tmp_path: Path, whose: str) -> None:
    if whose == "target":
        plans.plan()
    newest = max((tmp_path / whose / "_delta_log").glob("*.json"))
    newest.write_text(newest.read_text()[:-20])
    before = _fingerprint(tmp_path)
    plans.refused("RECORD_INVALID", "version 1 is damaged")
    assert _fingerprint(tmp_path) == before


def test_a_source_that_was_vacuumed_too_early_is_refused_by_the_file(plans: Plans, tmp_path: Path) -> None:
    gone = max(Path(plans.source).glob("*.parquet"), key=lambda file: file.stat().st_size)
    gone.unlink()
    before = _fingerprint(tmp_path)
    plans.refused("HISTORY_LOST", gone.name)
    assert _fingerprint(tmp_path) == before


def test_a_plan_whose_files_are_deleted_while_it_reads_them_begins_anew(
    plans: Plans, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(found: Preflight, rows: DataFrame) -> None:
        spark.sql(f"OPTIMIZE delta.`{plans.source}`")
        for file in rows.inputFiles():
            Path(file.removeprefix("file:")).unlink()
        check_keys(found, rows)

    with monkeypatch.context() as patch, pytest.raises(SourceUnavailable, match="its table does not need it"):
        patch.setattr(table_checks, "check_keys", checked)
        plans.plan()
    assert not Path(plans.target).exists()
    assert plans.plan().plan.source.epoch == 2


def test_without_a_key_a_missing_file_is_found_though_no_row_may_lack_the_first_column(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    gone = next(Path(source.path).glob("*.parquet"))
    gone.unlink()
    Plans(spark, source.path, tmp_path / "target").refused("HISTORY_LOST", gone.name, key=None, strategy="chain")
    assert not (tmp_path / "target").exists()


def test_keys_that_are_null_are_counted_and_shown(plans: Plans, spark: SparkSession) -> None:
    spark.sql(f"UPDATE delta.`{plans.source}` SET id = NULL WHERE id IN (3, 4)")
    assert plans.refused("KEY_NULL", "2 rows have no key") == {"count": 2, "sample": [{"id": None}, {"id": None}]}


def test_repeated_keys_are_counted_and_shown(plans: Plans, spark: SparkSession) -> None:
    spark.sql(f"INSERT INTO delta.`{plans.source}` VALUES (5, 0, 'twin'), (6, 0, 'twin')")
    sample = plans.refused("KEY_DUPLICATE", "2 keys have several rows")["sample"]
    assert sorted(key["id"] for key in sample) == ["5", "6"]


def test_a_source_without_a_feed_is_refused_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "source")
    spark.range(10).write.format("delta").save(path)
    Plans(spark, path, tmp_path / "target").refused("SOURCE_FEED_OFF", "ALTER TABLE")


def test_a_folder_of_parquet_is_no_source(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).write.parquet(str(tmp_path / "source"))
    Plans(spark, str(tmp_path / "source"), tmp_path / "target").refused("SOURCE_NOT_DELTA")


def test_a_target_that_is_not_ours_is_left_alone(plans: Plans, spark: SparkSession, tmp_path: Path) -> None:
    def own() -> None:
        table = f"delta.`{plans.target}`"
        spark.sql(f"CREATE TABLE {table} LIKE delta.`{plans.source}` TBLPROPERTIES ('{OWNER}' = 't')")
        spark.sql(f"INSERT INTO {table} SELECT * FROM delta.`{plans.source}`")

    for make in (
        own,
        lambda: spark.range(3).write.format("delta").save(plans.target),
        lambda: (Path(plans.target).mkdir(), (Path(plans.target) / "precious.csv").write_text("1")),
    ):
        make()
        before = _fingerprint(tmp_path)
        plans.refused("TARGET_EXISTS")
        assert _fingerprint(tmp_path) == before
        Path(plans.target).rename(tmp_path / f"moved-{len(list(tmp_path.iterdir()))}")


def test_a_target_of_another_build_is_left_alone(plans: Plans) -> None:
    plans.plan()
    plans.refused("TARGET_EXISTS", "belongs to build 't'", name="other")


def test_planning_again_finds_the_same_plan_and_commits_nothing(plans: Plans, spark: SparkSession) -> None:
    first = plans.plan()
    head = BuildReader(plans.target).log.head()
    spark.sql(f"DELETE FROM delta.`{plans.source}` WHERE id = 1")
    again = plans.plan()
    assert again.plan == first.plan
    assert BuildReader(plans.target).log.head() == head


def test_another_spec_is_refused_with_the_difference(plans: Plans) -> None:
    plans.plan()
    assert plans.refused("SPEC_CHANGED", where="v > 3")["difference"] == {"where": [None, "v > 3"]}


def test_eight_planners_at_once_settle_on_one_plan(plans: Plans) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: plans.plan().plan, range(8)))
    assert len({plan.fingerprint for plan in found}) == 1
    reader = BuildReader(plans.target)
    records = [c for c in reader.log.newest_first() if f"{found[0].build}/plan" in c.txns]
    assert len(records) == 1


def test_an_existing_build_can_be_an_error(plans: Plans) -> None:
    plans.plan()
    plans.refused("TARGET_EXISTS", on_existing=OnExisting.FAIL)


def test_a_restart_that_cannot_be_planned_leaves_the_build(plans: Plans, spark: SparkSession) -> None:
    first = plans.plan()
    restarted = partial(plans.refused, on_existing=OnExisting.RESTART)
    restarted("EXPRESSION_INVALID", where="nothing > 3")
    restarted("FUNCTION_INVALID", functions={"nothing": "1"})
    restarted("SPEC_INVALID", strategy="arrangement", lanes=2)
    restarted("KEY_DUPLICATE", key=["v"])
    restarted("EXPRESSION_INVALID", select=["id", "struct(v, v) AS s"])
    for name in ("appendOnly", "enableIcebergCompatV2"):
        with settings_for(spark, {f"spark.databricks.delta.properties.defaults.{name}": "true"}):
            restarted("UNSAFE_OPTION", f"{name} = true")
    assert not list(Path(plans.target + ".backfill", "trial").glob("*"))
    assert BuildReader(plans.target).state() == first


def test_a_restart_pins_the_settings_of_its_own_application(plans: Plans, spark: SparkSession) -> None:
    zone, ansi = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
    with given(spark, {zone: "America/New_York", ansi: "false"}) as plans.spark:
        first = plans.plan()
    plans.spark = spark.newSession()
    second = plans.plan(OnExisting.RESTART)
    assert [(one.plan.settings[zone], one.plan.settings[ansi]) for one in (first, second)] == [
        ("America/New_York", "false"),
        ("UTC", "true"),
    ]


def test_restart_drops_the_table_and_plans_anew(plans: Plans, spark: SparkSession) -> None:
    first = plans.plan()
    spark.sql(f"DELETE FROM delta.`{plans.source}` WHERE id = 1")
    second = plans.plan(OnExisting.RESTART, where="v > 3")
    assert second.plan.build != first.plan.build
    assert second.plan.source.epoch == first.plan.source.epoch + 1
    assert BuildReader(plans.target).state().plan == second.plan
    # A record of a newer version: nothing but a restart helps.
    Path(plans.target + ".backfill", "commands").mkdir()
    Path(plans.target + ".backfill", "commands", "000000001.json").write_text("{")
    apply.empty(spark, plans.target, apply.Txn(f"{second.plan.build}/1/0", 1), '{"airflow_backfill":3}')
    with pytest.raises(RecordInvalid, match="newer version"):
        plans.plan()
    third = plans.plan(OnExisting.RESTART)
    assert third.plan.build not in (first.plan.build, second.plan.build)
    assert BuildReader(plans.target).commands(third.plan.build) == []


def test_a_cancelled_build_goes_on_when_it_is_planned_again(plans: Plans, spark: SparkSession) -> None:
    build = plans.plan().plan.build
    shell = Shell(spark, plans.target)
    one_file = RoundSize(bytes=1, rows=1)
    half = run(SnapshotGoal(0, 1, one_file), plans.me(), build)
    control = ControlFolder.beside(plans.target)
    control.order(build, Command(Verb.CANCEL))
    with pytest.raises(BackfillError, match="cancelled"):
        shell.run(half)
    cancelled = shell.run(run(CancelGoal(), plans.me(), build))
    assert cancelled.phase is Phase.CANCELLED
    resumed = plans.plan()
    assert resumed.phase is Phase.SNAPSHOT and not resumed.control.cancelled
    done = Shell(spark, plans.target).run(run(SnapshotGoal(0, 1, one_file), plans.me(), build))
    assert done.sealed and spark.read.format("delta").load(plans.target).count() == 100


# --- which strategy ---


def reported(plans: Plans, **options: Any) -> tuple[str, dict[str, Any]]:
    state, report = Planner(plans.spark, plans.spec(**options), 1, plans.me()).plan(OnExisting.RESUME)
    return state.plan.spec.strategy, report


def test_a_source_that_keeps_its_files_is_pinned_and_it_is_said_why(plans: Plans) -> None:
    strategy, report = reported(plans, strategy="auto")
    assert strategy == report["strategy"] == report["recommended"]["strategy"] == "snapshot"
    assert "7.0 days kept" in report["why"]
    # What was left to the planner once is not asked for again, and may be named.
    assert plans.plan(strategy="auto").plan == plans.plan(strategy="snapshot").plan
    plans.refused("SPEC_CHANGED", strategy="arrangement")


def test_a_source_that_keeps_its_files_for_seconds_is_read_in_ranges(plans: Plans) -> None:
    kept = "delta.deletedFileRetentionDuration = 'interval 2 seconds'"
    plans.spark.sql(f"ALTER TABLE delta.`{plans.source}` SET TBLPROPERTIES ({kept})")
    strategy, report = reported(plans, strategy="auto", key=["ID"])
    assert strategy == "arrangement" and "times" in report["why"]
    assert any("every byte of the source is read about" in note for note in report["notes"])


def test_an_append_only_source_without_a_feed_is_a_chain(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "plain")
    for _ in range(2):
        spark.range(0, 10).write.format("delta").mode("append").save(path)
    plans = Plans(spark, path, tmp_path / "target")
    with pytest.raises(BackfillError, match="KEY_DUPLICATE"):
        reported(plans, strategy="auto", key=["id"])
    strategy, report = reported(plans, strategy="auto", key=[])
    assert strategy == "chain" and "only adds rows" in report["why"]


def test_where_nothing_says_what_becomes_of_rows_nothing_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "plain")
    spark.range(0, 10).write.format("delta").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    plans = Plans(spark, path, tmp_path / "target")
    with pytest.raises(BackfillError, match="SOURCE_FEED_OFF"):
        reported(plans, strategy="auto")
    assert not (tmp_path / "target").exists()
    strategy, report = reported(plans, strategy="chain", key=[])
    assert strategy == "chain" and report["recommended"] is None
    assert any("stops at the next such epoch" in note for note in report["notes"])


def test_another_strategy_than_the_recommended_one_is_taken_and_told(plans: Plans) -> None:
    strategy, report = reported(plans, strategy="arrangement")
    assert (strategy, report["recommended"]["strategy"]) == ("arrangement", "snapshot")
    assert any(line.startswith("recommended: strategy snapshot") for line in described(report))


def test_a_chain_has_one_lane(plans: Plans) -> None:
    plans.refused("SPEC_INVALID", "lanes", strategy="chain", lanes=2)


def test_a_key_without_statistics_is_a_key(spark: SparkSession, tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    rows = spark.range(20).selectExpr("id", "cast(string(id) AS binary) AS uuid", "id % 2 = 0 AS even")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
    for key, kept in ((["uuid"], None), (["even", "id"], "`id`")):
        plans = Plans(spark, source, tmp_path / "-".join(key))
        plans.plan(key=key)
        assert BuildReader(plans.target).properties.get("delta.dataSkippingStatsColumns") == kept


@pytest.mark.parametrize(
    "value", ["named_struct('a b', v)", "array(named_struct('a;b', v))", "map('k', named_struct('a=b', v))"]
)
def test_a_field_of_a_struct_may_have_any_name(plans: Plans, spark: SparkSession, value: str) -> None:
    plans.plan(select=["id", f"{value} AS s"])
    due = spark.sql(f"SELECT {value} AS s FROM VALUES (1) AS t(v)").schema["s"].dataType
    assert spark.read.format("delta").load(plans.target).schema["s"].dataType.simpleString() == due.simpleString()
