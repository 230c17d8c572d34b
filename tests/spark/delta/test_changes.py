"""Every way of reading changes against the table itself: before, with the net change applied, must be after."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core.delta.route import Leg, Route, choose
from airflow_backfill.core.errors import ChangesIncomplete, HistoryLost
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.delta.changes import footprints, read_changes, read_legs
from airflow_backfill.spark.delta.epoch_files import EpochFiles, read_epochs
from airflow_backfill.spark.source.changes import Changes
from airflow_backfill.spark.target_table.buckets import Buckets
from airflow_backfill.spark.target_table.net_change import net_changes
from airflow_backfill.spark.transform.transform import Transform, parse, quoted
from tests.spark.history import Source, applied, create, difference

pytestmark = pytest.mark.spark


def by_feed(files: Sequence[EpochFiles]) -> list[Leg]:
    return [Leg(EpochRange(files[0].epoch, files[-1].epoch + 1), Route.FEED, 0, "")]


def by_difference(files: Sequence[EpochFiles]) -> list[Leg]:
    return choose(footprints(files, distrusted=frozenset(f.epoch for f in files)))


def by_cost(files: Sequence[EpochFiles]) -> list[Leg]:
    return choose(footprints(files))


def transform_of(source: Source) -> Transform:
    """Renames the key, changes a value, drops a column, and filters."""
    id_, part, name, n = map(quoted, source.columns)
    schema = source.at(0).schema
    return parse(source.spark, schema, [f"{id_} AS k", f"upper({name}) AS label", n], f"{part} <> 2")


def read(source: Source, after: int, through: int, legs: Callable[[Sequence[EpochFiles]], list[Leg]]) -> Changes:
    files = read_epochs(source.spark, source.path, EpochRange.after(after, through))
    return read_legs(source.spark, source.path, files, legs(files), source.columns, [source.key])


def routes(changes: Changes) -> list[Route]:
    """By which way each leg is read."""
    return [route for line in changes.how for route in Route if f" by {route.value}: " in line]


def check(source: Source, after: int, through: int, legs: Callable[[Sequence[EpochFiles]], list[Leg]]) -> None:
    transform = transform_of(source)
    with net_changes(read(source, after, through, legs), transform, ("k",)) as net:
        got = applied(transform.apply(source.at(after)), net.frame, ("k",))
        assert difference(got, transform.apply(source.at(through))) == []


@pytest.mark.parametrize(
    ("kind", "legs"),
    [
        # With deletion vectors the feed reads every touched file again for each version.
        pytest.param("vectors", by_feed, marks=pytest.mark.soak),
        pytest.param("no vectors", by_feed, marks=pytest.mark.soak),
        pytest.param("no vectors", by_difference, marks=pytest.mark.soak),
        ("vectors", by_difference),
        ("odd names", by_feed),
        pytest.param("odd names", by_difference, marks=pytest.mark.soak),
    ],
)
def test_all_epochs_at_once(history: Callable[[str], Source], kind: str, legs: Callable) -> None:
    source = history(kind)
    check(source, 0, source.head, legs)


def test_the_cheapest_way(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    changes = read(source, 0, source.head, by_cost)
    assert set(routes(changes)) == {Route.FEED, Route.DIFFERENCE}
    check(source, 0, source.head, by_cost)


@pytest.mark.parametrize(
    ("after", "through", "legs"),
    # By the feed, each epoch of all histories is the step between two versions: see below.
    [
        (6, 9, by_feed),
        pytest.param(1, 5, by_difference, marks=pytest.mark.soak),
        pytest.param(6, 9, by_difference, marks=pytest.mark.soak),
        (11, 12, by_difference),
    ],
)
def test_parts_of_the_history(history: Callable[[str], Source], after: int, through: int, legs: Callable) -> None:
    check(history("vectors"), after, through, legs)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["vectors", "no vectors"])
def test_each_epoch_of_the_feed_is_the_step_between_two_versions(history: Callable[[str], Source], kind: str) -> None:
    """The per-version law, for all versions in one job: before, plus what comes, minus what goes, is after."""
    source = history(kind)
    columns = [quoted(c) for c in source.columns]
    changes = read(source, 0, source.head, by_feed)
    counted = changes.frame.groupBy("_commit_version", "_change_type").count().collect()
    assert changes.prove({(epoch, kind): count for epoch, kind, count in counted}) == frozenset()

    comes = F.col("_change_type").isin("insert", "update_postimage")
    everything = changes.frame.select(*columns, F.col("_commit_version"), F.when(comes, 1).otherwise(-1))
    for version in range(source.head + 1):
        # A version is what one epoch starts from and another one must arrive at.
        steps = F.expr(f"inline(array(struct({version + 1}L, 1), struct({version}L, -1)))")
        everything = everything.union(source.at(version).select(*columns, steps))
    everything = everything.where(F.col("_commit_version").between(1, source.head))
    names = [*(f"c{i}" for i in range(len(columns))), "epoch", "sign"]
    wrong = everything.toDF(*names).groupBy(*names[:-1]).agg(F.sum("sign").alias("sign")).where("sign <> 0")
    assert wrong.collect() == []


def test_the_table_without_a_feed(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, str(tmp_path / "t"), ("id", "part", "name", "n"))
    create(source, feed=False)
    source.append(300, 320)
    source.sql("DELETE FROM $table WHERE $id % 10 = 2")
    transform = transform_of(source)
    changes = read_changes(spark, source.path, EpochRange(2, 4), source.columns, ["id"], feed=False)
    with net_changes(changes, transform, ("k",)) as net:
        got = applied(transform.apply(source.at(1)), net.frame, ("k",))
        assert difference(got, transform.apply(source.at(3))) == []


def test_an_epoch_without_rows_yields_none_and_is_proven(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    optimize = next(
        e.epoch for e in read_epochs(source.spark, source.path, EpochRange(1, source.head + 1)) if e.rewrites
    )
    with net_changes(read(source, optimize - 1, optimize, by_cost), transform_of(source), ("k",)) as net:
        assert (net.upserts, net.deletes, net.changes) == (0, 0, 0)
        assert net.only_inserts


def test_buckets_part_the_changes(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    transform = transform_of(source)
    rows = transform.apply(source.at(1))
    parts = []
    for part in (Buckets(0, 2, 3), Buckets(2, 3, 3)):
        with net_changes(read(source, 1, 5, by_feed), transform, ("k",), part) as net:
            parts.append(net.upserts + net.deletes)
            rows = rows.sparkSession.createDataFrame(applied(rows, net.frame, ("k",)).collect(), rows.schema)
    assert difference(rows, transform.apply(source.at(5))) == []
    assert min(parts) > 0


def test_a_missing_commit_is_history_lost(source: Source) -> None:
    source.append(300, 310)
    source.append(310, 320)
    Path(source.path, "_delta_log", f"{2:020}.json").unlink()
    with pytest.raises(HistoryLost, match="epoch 2 "):
        read_changes(source.spark, source.path, EpochRange(2, 4), source.columns, ["id"])


def test_a_missing_commit_below_a_checkpoint_is_history_lost(source: Source) -> None:
    """Delta's own reader returns the other epochs without a word."""
    source.append(300, 310)
    source.append(310, 320)
    source.append(320, 330)
    jvm = source.spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(source.spark._jsparkSession, source.path).checkpoint()
    Path(source.path, "_delta_log", f"{3:020}.json").unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    feed = source.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    read = {row["_commit_version"] for row in feed.load(source.path).select("_commit_version").distinct().collect()}
    assert read == {1, 2, 4}
    with pytest.raises(HistoryLost, match="epoch 3 "):
        read_changes(source.spark, source.path, EpochRange(2, 5), source.columns, ["id"])


@pytest.mark.parametrize("folder", ["_change_data", "."])
def test_a_missing_file_is_history_lost(source: Source, folder: str) -> None:
    source.sql("UPDATE $table SET $name = 'x' WHERE $id < 100" if folder == "_change_data" else "DELETE FROM $table")
    for file in Path(source.path, folder).glob("*.parquet"):
        file.unlink()
    changes = read_changes(source.spark, source.path, EpochRange(2, 3), source.columns, ["id"])
    with pytest.raises(HistoryLost, match="parquet"):
        net_changes(changes, transform_of(source), ("k",))


def edit_commit(source: Source, version: int, edit: Callable[[dict], None]) -> None:
    file = Path(source.path, "_delta_log", f"{version:020}.json")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        edit(line)
    file.write_text("\n".join(json.dumps(line) for line in lines if line))
    Path(source.path, "_delta_log", f".{version:020}.json.crc").unlink()
    source.spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_rows_that_the_commit_does_not_account_for_are_not_applied(source: Source) -> None:
    source.append(300, 310)

    def claim_more(line: dict) -> None:
        if "add" in line:
            line["add"]["stats"] = line["add"]["stats"].replace('"numRecords":', '"numRecords":1')

    edit_commit(source, 2, claim_more)
    changes = read_changes(source.spark, source.path, EpochRange(2, 3), source.columns, ["id"])
    with pytest.raises(ChangesIncomplete) as raised:
        net_changes(changes, transform_of(source), ("k",))
    assert raised.value.data["epoch"] == 2


def test_change_data_that_is_not_all_of_the_change_is_read_from_files(source: Source) -> None:
    """As many pre- as post-images are left, but fewer than the rows that the deletion vectors hide."""
    source.sql("UPDATE $table SET $name = 'x', $id = $id + 1000 WHERE $id < 100")
    lost = []

    def lose(line: dict) -> None:
        if "cdc" in line and not lost:
            lost.append(line.pop("cdc"))

    edit_commit(source, 2, lose)
    check(source, 1, 2, by_feed)


def test_change_data_without_pre_images_is_read_from_files(source: Source) -> None:
    """Some writers leave pre-images out; then an update that changes a key would leave the old one behind."""
    source.sql("UPDATE $table SET $id = $id + 1000, $name = 'moved' WHERE $id < 20")
    for file in Path(source.path, "_change_data").glob("*.parquet"):
        rows = source.spark.read.parquet(str(file)).where("_change_type = 'update_postimage'").coalesce(1)
        rows.write.parquet(f"{source.path}/_change_data/_new")
        (new,) = Path(source.path, "_change_data", "_new").glob("*.parquet")
        new.replace(file)
        Path(file.parent, f".{file.name}.crc").unlink()
        for rest in sorted(Path(source.path, "_change_data", "_new").glob(".*")):
            rest.unlink()
        Path(source.path, "_change_data", "_new", "_SUCCESS").unlink()
        Path(source.path, "_change_data", "_new").rmdir()
    changes = read(source, 1, 2, by_feed)
    assert routes(changes) == [Route.FEED]
    transform = transform_of(source)
    with net_changes(changes, transform, ("k",)) as net:
        got = applied(transform.apply(source.at(1)), net.frame, ("k",))
        assert difference(got, transform.apply(source.at(2))) == []


def test_the_feed_has_the_pinned_columns_also_after_the_source_got_another(source: Source) -> None:
    source.append(300, 310)
    source.sql("ALTER TABLE $table ADD COLUMN more STRING")
    source.sql("UPDATE $table SET $name = 'x', more = 'y' WHERE $id < 5")
    for legs in (by_feed, by_difference):
        check(source, 1, 4, legs)


def test_the_feed_is_read_although_a_column_that_nothing_reads_is_dropped_and_renamed(source: Source) -> None:
    source.sql("ALTER TABLE $table ADD COLUMN more INT")
    start = source.head
    source.append(300, 310)
    source.sql("ALTER TABLE $table SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    source.sql("ALTER TABLE $table DROP COLUMN more")
    source.sql("ALTER TABLE $table ADD COLUMN more STRING")
    source.sql("UPDATE $table SET $name = 'x', more = 'y' WHERE $id < 5")
    source.sql("ALTER TABLE $table RENAME COLUMN more TO other")
    check(source, start, source.head, by_feed)
