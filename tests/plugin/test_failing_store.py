"""A store that does not answer once, at any operation of a request to the page: the page shows it, or says it by code,
and the same request is then answered.
"""

from __future__ import annotations

import pytest

from tests.failing import Failing
from tests.plugin.conftest import Client, key_of
from tests.plugin.test_api import OWN, PAUSE, RUN_PATH


@pytest.mark.soak
@pytest.mark.parametrize("done", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("path", ["builds", f"{RUN_PATH}/builds", "dags/orders_dag/builds/KEY"])
def test_at_any_operation_of_a_look(client: Client, target: str, failing: Failing, path: str, done: bool) -> None:
    path = path.replace("KEY", key_of(client))
    failing.count, failing.done = 0, done
    assert client("viewer").get(path).status_code == 200
    for at in range(1, failing.count + 1):
        failing.count, failing.at = 0, at
        assert client("viewer").get(path).status_code == 200
        failing.at = 0


@pytest.mark.soak
@pytest.mark.parametrize("done", [False, True], ids=["not done", "answer lost"])
def test_at_any_operation_of_a_command(client: Client, target: str, failing: Failing, done: bool) -> None:
    path = f"dags/orders_dag/builds/{key_of(client)}/commands"
    failing.count, failing.done = 0, done
    assert client("editor").post(path, json=PAUSE, headers=OWN).status_code == 201
    for at in range(1, failing.count + 1):
        failing.count, failing.at = 0, at
        answer = client("editor").post(path, json=PAUSE, headers=OWN)
        failing.at = 0
        if answer.status_code != 201:
            assert (answer.status_code, answer.json()["code"]) == (503, "SOURCE_UNAVAILABLE")
        assert client("editor").post(path, json=PAUSE, headers=OWN).status_code == 201
