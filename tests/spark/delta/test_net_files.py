"""The difference of two ends in files, and what the changes of an epoch must then be. Pure: no session."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill.core.errors import ChangesIncomplete
from airflow_backfill.spark.delta.epoch_files import EpochFiles, FileAction
from airflow_backfill.spark.delta.expected_changes import expected_of_feed, expected_of_files
from airflow_backfill.spark.delta.net_files import net_files
from airflow_backfill.spark.source.changes import Expected, prove


def file(path: str, rows: int | None = 10, vector: str | None = None, *, data_change: bool = True) -> FileAction:
    return FileAction(path, 100, rows, vector, data_change)


def commit(epoch: int, added: list[FileAction] = [], removed: list[FileAction] = [], **more) -> EpochFiles:  # noqa: B006
    changes = tuple(more.pop("changes", ()))
    options = {"no_op": False, "copied": None, "reshapes": False} | more
    return EpochFiles(epoch, tuple(added), tuple(removed), changes, **options)


def test_files_that_came_and_went_are_in_neither_end() -> None:
    net = net_files(
        [
            commit(1, added=[file("a"), file("b")]),
            commit(2, removed=[file("a"), file("old")]),
            commit(3, added=[file("b", 8, "v1")], removed=[file("b")]),
        ]
    )
    assert [(f.path, f.vector) for f in net.added] == [("b", "v1")]
    assert [f.path for f in net.removed] == ["old"]
    assert net.masked == ()


def test_a_file_that_stays_is_compared_by_its_first_and_last_vector() -> None:
    net = net_files(
        [
            commit(1, added=[file("a", 9, "v1")], removed=[file("a")]),
            commit(2, added=[file("a", 8, "v2")], removed=[file("a", 9, "v1")]),
        ]
    )
    assert [(old.vector, new.vector) for old, new in net.masked] == [(None, "v2")]


def test_a_file_that_went_and_came_back_as_it_was_is_no_change() -> None:
    gone, back = commit(1, removed=[file("a", 9, "v1")]), commit(2, added=[file("a", 9, "v1")])
    assert net_files([gone, back]) == net_files([])


def test_rewrites_without_data_change_are_no_change() -> None:
    net = net_files([commit(1, added=[file("n", data_change=False)], removed=[file("a", data_change=False)])])
    assert (net.added, net.removed, net.masked) == ((), (), ())


def counts(**kinds: int) -> dict[tuple[int, str], int]:
    names = {"pre": "update_preimage", "post": "update_postimage"}
    return {(1, names.get(kind, kind)): n for kind, n in kinds.items()}


def test_an_append_must_yield_its_rows() -> None:
    expected = [expected_of_feed(commit(1, added=[file("a", 7), file("b", 3)]), change_data=True)]
    assert prove(expected, counts(insert=10)) == frozenset()
    for wrong in (counts(insert=9), {}, counts(insert=11, delete=1)):
        with pytest.raises(ChangesIncomplete):
            prove(expected, wrong)


def test_an_epoch_without_data_change_must_yield_nothing() -> None:
    optimize = commit(1, added=[file("n", data_change=False)], removed=[file("a", data_change=False)])
    expected = [expected_of_feed(optimize, change_data=True)]
    assert prove(expected, {}) == frozenset()
    with pytest.raises(ChangesIncomplete):
        prove(expected, counts(insert=1, delete=1))


def test_a_merge_that_changed_nothing_must_yield_nothing() -> None:
    no_op = commit(1, added=[file("n")], removed=[file("a")], no_op=True)
    assert expected_of_feed(no_op, change_data=True) == Expected(1, 0, 0, 0, images=False)


def test_a_delete_must_yield_what_its_vectors_hide() -> None:
    delete = commit(1, added=[file("a", 6, "v")], removed=[file("a", 10)])
    expected = [expected_of_feed(delete, change_data=True)]
    assert prove(expected, counts(delete=4)) == frozenset()
    with pytest.raises(ChangesIncomplete, match="rows gained must be -4"):
        prove(expected, counts(delete=3))


@pytest.mark.parametrize(
    ("read", "lacking"),
    [
        (counts(pre=4, post=4, insert=1), set()),
        (counts(post=4, insert=1), {1}),
        (counts(pre=3, post=3, insert=1), {1}),
        (counts(pre=4, post=4), {1}),
    ],
)
def test_change_data_that_is_short_is_distrusted(read: dict[tuple[int, str], int], lacking: set[int]) -> None:
    files = commit(
        1, added=[file("a", 6, "v"), file("n", 5)], removed=[file("a", 10)], changes=[file("c", None)], copied=0
    )
    assert prove([expected_of_feed(files, change_data=True)], read) == lacking


def test_change_data_is_distrusted_by_what_little_the_log_says() -> None:
    unknown = [file("a", None)]
    files = commit(1, added=[file("n", 10)], removed=unknown, changes=[file("c", None)], copied=8)
    expected = [expected_of_feed(files, change_data=True)]
    assert prove(expected, counts(pre=2, post=2)) == frozenset()
    assert prove(expected, counts(pre=1, post=1)) == {1}
    files = commit(1, added=[file("n", None)], removed=unknown, changes=[file("c", None)])
    expected = [expected_of_feed(files, change_data=True)]
    assert prove(expected, counts(pre=2, post=2)) == frozenset()
    assert prove(expected, counts(post=2)) == {1}


def test_rows_that_a_commit_copied_are_not_expected() -> None:
    files = commit(1, added=[file("n", 10)], removed=[file("a", 10)], changes=[file("c", None)], copied=8)
    assert prove([expected_of_feed(files, change_data=True)], counts(pre=2, post=2)) == frozenset()


def test_where_the_log_has_no_counts_nothing_is_expected_of_them() -> None:
    net = net_files([commit(1, added=[file("a", None)], removed=[file("b", 5)])])
    assert expected_of_files(1, net) == Expected(1, None, None, 5, images=False)


def test_the_proof_of_many_epochs_looks_at_what_was_read_once() -> None:
    class Read(dict[tuple[int, str], int]):
        looked = 0

        def __iter__(self) -> Any:
            Read.looked += 1
            return super().__iter__()

        def items(self) -> Any:
            Read.looked += 1
            return super().items()

    many = range(2_000)
    expected = [Expected(epoch, growth=1, comes=1, goes=0, images=False) for epoch in many]
    assert prove(expected, Read({(epoch, "insert"): 1 for epoch in many})) == frozenset()
    assert Read.looked <= 2
