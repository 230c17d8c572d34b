"""What every store promises, as checks that take an empty store and raise if it does not keep a promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.ledger.store import NotFound, Store


def refuses(kind: type[Exception], call: Callable[[], object]) -> Exception:
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def a_created_file_can_be_read(store: Store) -> None:
    data = "one\nzwei ü\n".encode()
    assert store.create("a/b/one.json", data) is True and store.read("a/b/one.json", 1000) == data
    assert b"".join(store.chunks("a/b/one.json")) == data
    with store.open("a/b/one.json") as file:
        file.seek(-4, 2)
        assert file.read() == data[-4:]
        file.seek(4)
        assert file.read(4) == b"zwei" and file.tell() == 8


def the_first_of_two_creations_stays(store: Store) -> None:
    assert store.create("x.json", b"first\n") is True
    assert store.create("x.json", b"second\n") is False
    assert store.read("x.json", 100) == b"first\n"


def put_replaces(store: Store) -> None:
    store.put("a/x.json", b"a long first text\n")
    store.put("a/x.json", b"second\n")
    assert store.read("a/x.json", 100) == b"second\n" and store.list("a") == ["x.json"]


def a_read_stops_at_its_limit(store: Store) -> None:
    data = b"0123456789abcde\n" * 200_000
    store.put("big", data)
    assert store.read("big", 10) == b"0123456789" and store.read("big", 2_000_000) == data[:2_000_000]
    chunks = list(store.chunks("big"))
    assert b"".join(chunks) == data and len(chunks) > 1


def a_listing_is_sorted_and_begins_after(store: Store) -> None:
    for name in ("b.json", "a.json", "c", "below/d.json", "_hidden"):
        store.put(f"f/{name}", b"x\n")
    assert [name for name in store.list("f") if name != "below"] == ["a.json", "b.json", "c"]
    assert [name for name in store.list("f", after="a.json") if name != "below"] == ["b.json", "c"]
    assert [name for name in store.list("f", after="b") if name != "below"] == ["b.json", "c"]
    assert list(store.list("f", after="d")) == [] and list(store.list("nowhere")) == []
    assert list(store.list("f/a.json")) in ([], ["a.json"])


def subfolders_are_sorted(store: Store) -> None:
    for name in ("t/b/x", "t/a.backfill/attempts/1", "t/file", "t/_hidden/x", "top"):
        store.put(name, b"x\n")
    assert list(store.folders("t")) == ["a.backfill", "b"] and "t" in store.folders("")
    assert list(store.folders("t/a.backfill")) == ["attempts"] and list(store.folders("nowhere")) == []


def what_is_missing_is_named(store: Store) -> None:
    store.put("a/there", b"x\n")
    for name in ("a/missing", "nowhere/missing", "a/there/below"):
        for call in (
            lambda name=name: store.read(name, 10),
            lambda name=name: list(store.chunks(name)),
            lambda name=name: store.open(name),
        ):
            error = refuses(NotFound, call)
            assert name in str(error) and store.url in str(error)


def deleting_twice_is_fine(store: Store) -> None:
    store.put("a/x", b"x\n")
    store.delete("a/x")
    store.delete("a/x")
    refuses(NotFound, lambda: store.read("a/x", 1))
    assert list(store.list("a")) == []


def names_stay_below_the_root(store: Store) -> None:
    for name in ("../x", "a/../../x", "/etc/x", "a//x", "", "a/./x", "a/.hidden", "a\0b", "a\nb", "a\\b"):
        refuses(InvalidSpec, lambda name=name: store.put(name, b"x\n"))
        refuses(InvalidSpec, lambda name=name: store.read(name, 1))


def of_many_writers_of_one_file_one_wins(clients: Sequence[Store], races: int) -> None:
    """No part of ``CHECKS``: it takes long, and several clients of one store."""
    with ThreadPoolExecutor(len(clients)) as pool:
        for number in range(races):
            name = f"{number:05}"
            won = list(pool.map(lambda n, name=name: clients[n].create(name, b"%d" % n), range(len(clients))))
            assert won.count(True) == 1, name
            assert clients[0].read(name, 10) == b"%d" % won.index(True)


CHECKS = (
    a_created_file_can_be_read,
    the_first_of_two_creations_stays,
    put_replaces,
    a_read_stops_at_its_limit,
    a_listing_is_sorted_and_begins_after,
    subfolders_are_sorted,
    what_is_missing_is_named,
    deleting_twice_is_fine,
    names_stay_below_the_root,
)
