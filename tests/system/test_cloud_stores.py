"""The emulators of Azure and of Cloud Storage, as Airflow's side uses them: what every store promises, and that one of
two writers fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import Store
from tests.ledger.contract import CHECKS, of_many_writers_of_one_file_one_wins
from tests.system import azure, cloud_storage
from tests.system.azure import AzureLake
from tests.system.cloud_storage import GcsLake

pytestmark = pytest.mark.soak

RACES = 1000
CLIENTS = 4


SERVICES = {
    "azure": (azure.PROGRAM, azure.azurite, azure.make_container, AzureLake),
    "cloud storage": (cloud_storage.PYTHON, lambda _: cloud_storage.testbench(), cloud_storage.make_bucket, GcsLake),
}


@pytest.fixture(scope="module", params=SERVICES)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the objects are."""
    there, started, made, lake = SERVICES[request.param]
    if not there:
        pytest.skip("neither AZURITE nor TESTBENCH names this emulator")
    with started(tmp_path_factory.mktemp("objects")) as service, pytest.MonkeyPatch.context() as patch:
        for name, value in lake.environment(service).items():
            patch.setenv(name, value)
        made(service.endpoint)
        yield lake.root


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_store_keeps_what_every_store_promises(root: str, check: Callable[[Store], None]) -> None:
    check(open_store(f"{root}/{check.__name__}"))


def test_of_many_writers_of_one_file_one_wins(root: str) -> None:
    of_many_writers_of_one_file_one_wins([open_store(f"{root}/races") for _ in range(CLIENTS)], RACES)


def test_a_listing_of_several_pages_begins_where_it_is_asked_to(root: str) -> None:
    names = [f"{number:020}.json" for number in range(1100)]
    store = open_store(f"{root}/listing")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(f"_delta_log/{name}", b"x"), names))
    assert store.list("_delta_log") == names and store.list("_delta_log", after=names[-3]) == names[-2:]
