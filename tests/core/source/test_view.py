from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.delta.epochs import FEED, epoch_of, lost
from airflow_backfill.core.errors import (
    BackfillError,
    FeedOff,
    HistoryLost,
    NotAppendOnly,
    SchemaChanged,
    SourceReplaced,
)
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.commit import Commit, CommitId, FileTotals, TableMetadata
from tests.core.delta.test_schema import column, schema
from tests.core.model_target import SCHEMA, SOURCE_ID, Model
from tests.core.topic_model import TopicModel

PLAN = Model().draft()
FED = {FEED: "true"}


def of(**fields: Any) -> Epoch:
    return epoch_of(PLAN, Commit(9, 70, **fields))


# --- how much an epoch is ---


def test_an_append_counts_its_rows() -> None:
    epoch = of(operation="WRITE", added=FileTotals(2, 500, 30), data_change=True)
    assert (epoch.number, epoch.at, epoch.rows, epoch.bytes, epoch.stop) == (9, 70, 30, 500, None)


def test_a_merge_with_change_data_counts_the_rows_that_it_changed_and_reads_the_change_data() -> None:
    metrics = {"numTargetRowsInserted": 3, "numTargetRowsUpdated": 4, "numTargetRowsDeleted": 5, "numOutputRows": 900}
    files = FileTotals(7, 9_000, 900)
    epoch = of(added=files, removed=files, changed=FileTotals(1, 77), data_change=True, metrics=metrics)
    assert (epoch.rows, epoch.bytes) == (12, 77)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "SET TBLPROPERTIES", "VACUUM START"])
def test_a_commit_without_data_change_is_an_epoch_without_rows(operation: str) -> None:
    epoch = of(operation=operation, added=FileTotals(1, 900, 50), removed=FileTotals(9, 900, 50), rewrites=True)
    assert (epoch.rows, epoch.bytes) == (0, 0)


TOTALS = st.builds(
    FileTotals, st.integers(1, 9), st.integers(1, 10**9), st.none() | st.integers(0, 999), st.integers(0, 99)
)
NONE = st.just(FileTotals())


METRICS = st.dictionaries(st.just("numOutputRows"), st.integers(0, 9))


@given(TOTALS | NONE, TOTALS | NONE, TOTALS | NONE, METRICS)
def test_an_epoch_that_changes_rows_is_never_guessed_to_be_nothing(
    added: FileTotals, removed: FileTotals, changed: FileTotals, metrics: dict[str, int]
) -> None:
    """A throttle and a round's size go by these numbers: 0 rows would let anything through."""
    epoch = of(added=added, removed=removed, changed=changed, data_change=True, metrics=metrics)
    counted = all(totals.rows == 0 for totals in (added, removed, changed))
    if (added.files or removed.files or changed.files) and not counted:
        assert epoch.rows >= 1 and epoch.bytes >= 1


HIDDEN = FileTotals(2, 900, 100, deleted_rows=10)
PLAIN = FileTotals(2, 900, 100)
CHANGED = {"changed": FileTotals(2, 77)}


def test_a_restore_that_brings_hidden_rows_back_does_not_count_as_nothing() -> None:
    assert of(operation="RESTORE", added=PLAIN, removed=HIDDEN, data_change=True).rows >= 10


VECTORS = {"added": FileTotals(6, 6_600, 1_073, 73), "removed": FileTotals(4, 4_400, 1_000)}
COPIES = {"added": FileTotals(4, 4_400, 1_000), "removed": FileTotals(4, 4_400, None)}
REWRITE = {"numCopiedRows": 927, "numDeletedRows": 73, "numOutputRows": 1_000}
OPERATIONS = [
    ("WRITE", VECTORS, REWRITE, 146),
    ("WRITE", COPIES, REWRITE, 146),
    ("WRITE", {**COPIES, "changed": FileTotals(4, 90)}, REWRITE, 146),
    ("WRITE", VECTORS, {"numCopiedRows": 1_000, "numDeletedRows": 0, "numOutputRows": 1_000}, 1),
    ("DELETE", VECTORS, {"numCopiedRows": 0, "numDeletedRows": 3}, 3),
    ("DELETE", COPIES, {"numCopiedRows": 997, "numDeletedRows": 3}, 3),
    ("DELETE", {"removed": FileTotals(2, 900, 500)}, {"numCopiedRows": 0, "numDeletedRows": 500}, 500),
    ("UPDATE", VECTORS, {"numCopiedRows": 0, "numUpdatedRows": 4}, 4),
    ("MERGE", VECTORS, {"numTargetRowsInserted": 6, "numTargetRowsCopied": 9, "numOutputRows": 15}, 6),
    ("WRITE", {"added": PLAIN, "removed": PLAIN}, {}, 200),
    ("UPDATE", CHANGED, {"numUpdatedRows": 8}, 8),
    ("DELETE", CHANGED, {"numDeletedRows": 6}, 6),
    ("DELETE", {"added": HIDDEN, "removed": replace(HIDDEN, deleted_rows=3)}, {}, 7),
    ("TRUNCATE", {"removed": FileTotals(2, 900, 210)}, {}, 210),
    ("RESTORE", {"added": FileTotals(6, 900, 1_040), "removed": FileTotals(1, 900, 1_250)}, {}, 2_290),
]


@pytest.mark.parametrize(("operation", "files", "metrics", "rows"), OPERATIONS)
def test_a_commit_changes_what_it_says_and_not_every_row_of_the_files_it_touches(
    operation: str, files: dict[str, Any], metrics: dict[str, int], rows: int
) -> None:
    assert of(operation=operation, data_change=True, metrics=metrics, **files).rows == rows


def test_metrics_that_the_files_contradict_are_not_believed() -> None:
    grown = {"added": FileTotals(1, 900, 50), "removed": FileTotals(1, 900, 10)}
    assert of(data_change=True, metrics={"numDeletedRows": 2}, **grown).rows == 40
    assert of(data_change=True, metrics={"numUpdatedRows": 10**9}, **grown).rows == 60
    silent = {"numTargetRowsInserted": 0, "numTargetRowsUpdated": 0, "numTargetRowsDeleted": 0}
    assert of(data_change=True, metrics=silent, changed=FileTotals(1, 4_000, None)).rows == 41


def test_what_nobody_counted_is_guessed_by_its_size() -> None:
    replaced = of(data_change=True, added=FileTotals(2, 900, 50), removed=FileTotals(3, 1_000, None))
    assert replaced.rows == 50 + 3 + 1_000 // 18
    assert of(data_change=True, changed=FileTotals(2, 5_000, None)).rows == 52


def test_a_change_weighs_what_its_rows_take_and_not_the_files_that_are_read_for_it() -> None:
    """By this an epoch is parted: parts of a delete would all read the same files, and hold nothing."""
    few = of(operation="DELETE", data_change=True, metrics={"numDeletedRows": 10}, **VECTORS)
    assert (few.bytes, few.weight) == (11_000, 54)
    assert of(data_change=True, changed=FileTotals(2, 5_000, 9)).weight == 5_000
    assert of(data_change=True, added=FileTotals(2, 5_000, None)).weight == 5_000
    assert of(data_change=True, added=FileTotals(2, 5_000, 70)).weight == 5_000


# --- what stops a build ---


def stop(**fields: Any) -> BackfillError | None:
    said: dict[str, Any] = {"table_id": SOURCE_ID, "schema_json": SCHEMA, "configuration": FED, **fields}
    return of(metadata=TableMetadata(**said)).stop


def test_metadata_that_leaves_the_rows_alone_does_not_stop() -> None:
    assert stop() is None
    assert stop(configuration={FEED: "TRUE", "other": "x"}) is None


def test_another_table_does_not_stop_if_a_later_epoch_brings_the_planned_one_back() -> None:
    assert stop(table_id="source-2") is None


def test_an_error_of_a_changed_source_says_how_to_keep_the_target() -> None:
    added = json.loads(SCHEMA)
    added["fields"].append({"name": "more", "type": "long", "nullable": True, "metadata": {}})
    for fields, epoch in (({"configuration": {}}, "N"), ({"schema_json": json.dumps(added)}, "9")):
        error = stop(**fields)
        assert error is not None and f"--epoch {epoch} --why" in error.message


def test_an_error_of_a_change_that_no_alter_undoes_says_what_does() -> None:
    wider = SCHEMA.replace('"long"', '"decimal(20,0)"')
    for fields in ({"schema_json": wider}, {"partition_columns": ("id",)}):
        error = stop(**fields)
        assert error is not None and f"RESTORE TABLE delta.`{PLAN.spec.source}` TO VERSION AS OF 8" in error.message
    assert """epoch 9 changes column 'id' from "long" to "decimal(20,0)";""" in str(stop(schema_json=wider))


@pytest.mark.parametrize("configuration", [{}, {FEED: "false"}, {FEED: ""}])
def test_a_feed_that_is_switched_off_stops(configuration: dict[str, str]) -> None:
    assert isinstance(stop(configuration=configuration), FeedOff)


def test_another_partitioning_stops() -> None:
    assert isinstance(stop(partition_columns=("id",)), SchemaChanged)


# --- the view ---


def view(head: int, after: int, *, table_id: str = SOURCE_ID, gone: tuple[int, ...] = ()) -> SourceView:
    numbers = range(after + 1, head + 1)
    return SourceView(table_id, head, after, Backlog(lost(n) if n in gone else Epoch(n, 0, 1, 1) for n in numbers))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_pending_is_exactly_what_is_later_than_the_applied_epoch(after: int, more: int, steps: int) -> None:
    head = after + more
    applied = min(after + steps, head)
    assert [e.number for e in view(head, after).pending(applied)] == list(range(applied + 1, head + 1))


def test_a_source_that_is_there_passes() -> None:
    for head in (7, 8, 20):
        check_source(PLAN, view(head, 7), 7, ())


def test_another_table_in_the_place_is_not_read_on() -> None:
    with pytest.raises(SourceReplaced, match="source-2") as raised:
        check_source(PLAN, view(20, 7, table_id="source-2"), 7, ())
    assert raised.value.data == {"planned": SOURCE_ID, "found": "source-2"}


def test_a_history_that_went_backwards_names_both_numbers() -> None:
    with pytest.raises(SourceReplaced) as raised:
        check_source(PLAN, view(6, 6), 7, ())
    assert raised.value.data == {"head": 6, "applied": 7}


def test_a_history_that_was_put_back_and_has_grown_again_is_not_read_on() -> None:
    seen = replace(view(20, 7), digest="new")
    check_source(PLAN, seen, 7, [CommitId(7, "new")])
    with pytest.raises(SourceReplaced, match=r"earlier state.*on_existing='restart'.*recover .*--epoch 7") as raised:
        check_source(PLAN, seen, 7, [CommitId(7, "old")])
    assert raised.value.data == {"epoch": 7, "known": "old", "found": "new"}


def test_every_commit_that_anything_stands_at_is_compared() -> None:
    """Lanes stand at epochs of their own, and a part of an epoch is in the target before the epoch is."""
    epochs = [Epoch(n, 0, 1, 1, digest=f"digest {n}") for n in range(8, 13)]
    seen = replace(view(12, 7), epochs=Backlog(epochs), digest="digest 7")
    check_source(PLAN, seen, 7, [CommitId(7, "digest 7"), CommitId(10, "digest 10")])
    for stands in (CommitId(10, "another"), CommitId(13, "digest 13")):
        with pytest.raises(SourceReplaced, match=f"epoch {stands.version}"):
            check_source(PLAN, seen, 7, [CommitId(7, "digest 7"), stands])


def test_a_commit_that_was_cleaned_up_is_compared_with_nothing() -> None:
    check_source(PLAN, view(12, 7), 7, [CommitId(7, "old"), CommitId(5, "older")])


def test_the_next_epoch_being_gone_stops_at_once_and_names_it() -> None:
    with pytest.raises(HistoryLost, match="epoch 8") as raised:
        check_source(PLAN, view(12, 7, gone=(8,)), 7, ())
    assert raised.value.data == {"epoch": 8} and not raised.value.retry


def test_a_later_hole_does_not_stop_what_comes_before_it() -> None:
    check_source(PLAN, view(12, 7, gone=(10,)), 7, ())
    with pytest.raises(HistoryLost, match="epoch 10"):
        check_source(PLAN, view(12, 7, gone=(10,)), 9, ())


# --- sources to which rows are only added ---


KEYLESS = replace(PLAN, spec=replace(PLAN.spec, key=(), strategy="chain"))
ADDS_ONLY = replace(PLAN, source=replace(PLAN.source, feed=False), spec=replace(PLAN.spec, strategy="chain"))


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE", "removed": FileTotals(1, 5, 5), "data_change": True},
        {"operation": "UPDATE", "added": FileTotals(1, 5, 5), "removed": FileTotals(1, 5, 5), "data_change": True},
        {"operation": "MERGE", "changed": FileTotals(1, 5, 5), "data_change": True},
    ],
    ids=lambda fields: fields["operation"],
)
@pytest.mark.parametrize("lacking", ["feed", "key"])
def test_without_feed_or_key_an_epoch_that_does_more_than_add_rows_stops(fields: dict[str, Any], lacking: str) -> None:
    stopped = epoch_of(ADDS_ONLY if lacking == "feed" else KEYLESS, Commit(9, 70, **fields)).stop
    assert isinstance(stopped, NotAppendOnly) and stopped.data["epoch"] == 9
    assert lacking in stopped.message and fields["operation"] in stopped.message
    kept = "recover" in stopped.message and "--epoch 9" in stopped.message and "repair" in stopped.message
    assert kept == (lacking == "feed"), "without a key nothing can be repaired"
    assert of(**fields).stop is None


def test_rows_of_a_landing_table_are_only_added() -> None:
    """A feed and a key would not help."""
    plan = TopicModel(3).plan()
    stopped = epoch_of(plan, Commit(9, 70, "DELETE", removed=FileTotals(1, 5, 5), data_change=True)).stop
    assert isinstance(stopped, NotAppendOnly) and stopped.data["epoch"] == 9
    assert "only append" in stopped.message and "feed" not in stopped.message


def test_a_landing_table_may_get_lose_and_change_columns_that_are_none_of_a_record() -> None:
    """It is shared: whoever lands the records may note there when, or from where."""
    record, noted = [column("topic"), column("offset")], column("noted")
    plan = TopicModel(3).plan()
    plan = replace(plan, source=replace(plan.source, schema_json=schema(*record, noted)))

    def stopped(*columns: dict[str, Any]) -> BackfillError | None:
        return epoch_of(plan, Commit(9, 70, metadata=TableMetadata(SOURCE_ID, schema(*columns)))).stop

    for others in ([], [noted, column("more")], [{**noted, "type": "string"}]):
        assert stopped(*record, *others) is None
    assert isinstance(stopped(column("topic"), noted), SchemaChanged)


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "WRITE", "added": FileTotals(1, 5, 5), "data_change": True},
        {"operation": "OPTIMIZE", "added": FileTotals(1, 5, 5), "removed": FileTotals(2, 5, 5), "rewrites": True},
        {"operation": "SET TBLPROPERTIES", "metadata": TableMetadata(SOURCE_ID, SCHEMA, (), {})},
    ],
    ids=lambda fields: fields["operation"],
)
def test_without_a_feed_added_rows_and_maintenance_are_followed(fields: dict[str, Any]) -> None:
    assert epoch_of(ADDS_ONLY, Commit(9, 70, **fields)).stop is None


ADDED = schema(*json.loads(SCHEMA)["fields"], column("extra"))


def test_without_a_key_no_way_out_leads_through_a_repair() -> None:
    with pytest.raises(SourceReplaced) as raised:
        check_source(KEYLESS, view(8, 8), 9, ())
    other = TableMetadata(SOURCE_ID, schema(column("other")), (), {})
    dropped = epoch_of(KEYLESS, Commit(9, 70, metadata=other)).stop
    belied = epoch_of(KEYLESS, Commit(9, 70, added=FileTotals(1, 5, 5), rewrites=True)).stop
    for error in (raised.value, dropped, belied):
        assert error is not None
        assert "on_existing='restart'" in error.message
        assert "recover" not in error.message and "repair" not in error.message


@pytest.mark.parametrize("data_change", [False, True])
def test_without_a_key_a_column_that_comes_with_no_row_is_passed_by_a_recovery(data_change: bool) -> None:
    commit = Commit(9, 70, metadata=TableMetadata(SOURCE_ID, ADDED, (), {}), data_change=data_change)
    stopped = epoch_of(KEYLESS, commit).stop
    assert isinstance(stopped, SchemaChanged) and "repair" not in stopped.message
    assert ("if the target stands at epoch 8" in stopped.message) is not data_change
    assert ("--epoch 9" in stopped.message) is not data_change
