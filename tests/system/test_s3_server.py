"""The S3 of these tests is one on which two writers cannot both create a file: many races, many clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.ledger.journal import Journal
from tests.ledger.contract import of_many_writers_of_one_file_one_wins
from tests.system.s3 import S3, gate, s3

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RACES = 1000
CLIENTS = 4


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("s3")) as one:
        yield one


def test_of_many_writers_of_one_file_one_wins(service: S3) -> None:
    of_many_writers_of_one_file_one_wins([service.store("races") for _ in range(CLIENTS)], RACES)


def test_writers_of_one_journal_get_numbers_of_their_own(service: S3) -> None:
    """Unlike S3, this server lists an object while it is written, under a name that no journal has and each refuses."""
    journals = [Journal(service.store("journal"), "j") for _ in range(CLIENTS)]

    def append(i: int) -> int:
        while True:
            try:
                return journals[i % CLIENTS].append({"i": i})
            except RecordInvalid as refused:
                assert re.fullmatch(r"\d{9}\.json-[0-9a-f-]{36}", refused.data["file"])

    with ThreadPoolExecutor(CLIENTS) as pool:
        numbers = list(pool.map(append, range(12)))
    assert sorted(numbers) == list(range(1, 13))


def test_a_listing_is_as_long_as_what_is_new(service: S3) -> None:
    names = [f"{number:020}.json" for number in range(1100)]
    with gate(service) as way:
        store = way.store("listing")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: store.put(f"_delta_log/{name}", b""), names))
        way.asked.clear()
        assert store.list("_delta_log") == names and len(way.asked) == 2
        way.asked.clear()
        assert store.list("_delta_log", after=names[-3]) == names[-2:] and len(way.asked) == 1
