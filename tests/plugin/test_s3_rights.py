"""The least rights that the documentation names for the API server suffice on S3, and each of them is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.s3_lake import check, new_lake, said, target_of
from tests.ledger.s3_users import OPEN, PAGE, Right, Users, documented
from tests.plugin.conftest import Client
from tests.plugin.database import RUN, worked
from tests.plugin.test_api import OWN, PAUSE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with new_lake(tmp_path_factory.mktemp("source"), OPEN) as users:
        yield users


@pytest.mark.parametrize("missing", [None, *documented(PAGE)], ids=str)
def test_the_page_needs_its_rights_and_no_more(lake: Users, client: Client, missing: Right | None) -> None:
    attempt = worked("orders_dag", "orders.snapshot", target_of(OPEN))
    explanation = {"key": {"id": "1"}, "verdict": "unknown"}
    BuildReader(target_of(OPEN)).control.store_explanation(attempt, explanation)

    def get(path: str) -> str:
        return client("editor").get(path).text

    def one() -> str:
        """The page of the only build, and what it is asked for."""
        [build] = json.loads(get("builds"))["builds"]
        path = f"dags/orders_dag/builds/{build['key']}"
        order = client("editor").post(f"{path}/commands", json=PAUSE, headers=OWN)
        return "\n".join([get(path), get(f"{path}/explanations/{attempt.generation}"), order.text])

    acts = [lambda: get("builds"), lambda: get(f"dags/orders_dag/runs/{RUN}/builds"), one]
    with lake.changed(PAGE, [right for right in documented(PAGE) if right != missing]), lake.acting(PAGE):
        check(said(acts), missing)
