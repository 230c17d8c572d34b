"""The page in a real Chromium, of builds that ``test_page`` does not have: of a topic, one that falls behind, one that
catches up, one that somebody changed. No task has to run, so there is only an API server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.values.control import Command
from airflow_backfill.ledger.reader import BuildReader
from tests.plugin.airflow_process import CHROMIUM, AirflowProcess, chromium
from tests.plugin.test_page import CUT_OFF, press, tab_to
from tests.plugin.topic_sights import TOPIC

pytestmark = [
    pytest.mark.soak,
    pytest.mark.airflow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs Debian's package chromium"),
]

TABLES = ("behind", "gains", "changed")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowProcess]:
    airflow = AirflowProcess(tmp_path_factory.mktemp("shop"), [TOPIC, *TABLES])
    airflow.run("db", "migrate")
    airflow.run("dags", "reserialize")
    airflow.run("-m", "tests.plugin.topic_sights", str(airflow.place))
    with airflow.serving("api-server"):
        yield airflow


def target(airflow: AirflowProcess, name: str) -> str:
    return str(airflow.place / (f"{TOPIC}/target" if name == TOPIC else f"marts/{name}"))


def address(airflow: AirflowProcess, name: str) -> str:
    return f"shop_{name}/{sha256(target(airflow, name).encode()).hexdigest()[:16]}"


def orders(airflow: AirflowProcess, name: str, user: str, **order: Any) -> tuple[int, Any]:
    """What the API answers to an order."""
    dag, key = address(airflow, name).split("/")
    answer = airflow.answer(user, "POST", f"table-backfill/dags/{dag}/builds/{key}/commands", order)
    return answer.status_code, answer.json()


def given(airflow: AirflowProcess, name: str) -> list[Command]:
    reader = BuildReader(target(airflow, name))
    return [one for _, one in reader.commands(reader.state().plan.build)]


def test_a_topic_as_a_viewer_sees_it(airflow: AirflowProcess) -> None:
    with chromium(airflow) as opened:
        page = opened("vera", "/plugin/table-backfills")
        page.get_by_role("link", name=TOPIC, exact=True).click()
        page.get_by_text("topic clicks").first.wait_for()
        for said in ("400 of 1,250 records", "of records", "before Kafka may delete what the build needs"):
            page.get_by_text(said).first.wait_for()
        page.get_by_text("Kafka may delete the first unread record of the topic").first.wait_for()
        page.get_by_text("You may view this build but not command it").wait_for()
        assert page.get_by_role("button", name=re.compile("Skip|Dead|Cancel")).count() == 0
        for verb in ("skip", "dead-letter"):
            status, said = orders(airflow, TOPIC, "vera", verb=verb, why="x")
            assert (status, said["code"]) == (403, "HTTP_403")
    assert given(airflow, TOPIC) == []


def test_records_that_are_lost_or_cannot_be_decoded_are_passed_over(airflow: AirflowProcess) -> None:
    """One by mouse on a phone, the other by keyboard alone in the dark."""
    path = f"/plugin/table-backfills/{address(airflow, TOPIC)}"
    with chromium(airflow) as opened:
        page = opened("ed", path, width=420)
        page.get_by_role("button", name="Skip lost records …").click()
        page.get_by_text("This cannot be undone").wait_for()
        assert page.evaluate(CUT_OFF) == []
        page.get_by_role("button", name="Skip lost records", exact=True).click()
        assert page.get_by_label("Why (required)").evaluate("field => field.validity.valueMissing")
        page.get_by_label("Why (required)").fill("Kafka has deleted them")
        press(page, "Skip lost records", "skip is command 1")
        page.get_by_role("cell", name="Kafka has deleted them").wait_for()

        page = opened("ed", path, dark=True)
        page.get_by_role("button", name="Dead letters …").wait_for()
        tab_to(page, "Dead letters …")
        page.keyboard.press("Enter")
        page.get_by_label("Why (required)").wait_for()
        page.keyboard.type("a test wrote into the topic")  # the field has the focus
        page.keyboard.press("Enter")
        page.get_by_text("dead-letter is command 2").wait_for()
        page.get_by_role("cell", name="a test wrote into the topic").wait_for()
        page.get_by_role("button", name="Dead letters …").wait_for(state="detached")
    found = [(one.verb.value, one.signed.by, one.signed.why) for one in given(airflow, TOPIC)]
    assert found == [
        ("skip", "ed", "Kafka has deleted them"),
        ("dead-letter", "ed", "a test wrote into the topic"),
    ]


def test_what_makes_no_sense_for_a_table_is_neither_offered_nor_taken(airflow: AirflowProcess) -> None:
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, 'gains')}")
        page.get_by_role("button", name="Pause").wait_for()
        assert page.get_by_role("button", name=re.compile("Skip|Dead")).count() == 0
        for verb, why in (("skip", "reads no history of a topic"), ("dead-letter", "decodes no records")):
            status, said = orders(airflow, "gains", "ed", verb=verb, why="x")
            assert (status, said["code"]) == (409, "NOT_ALLOWED_NOW") and why in said["message"] and said["way_out"]
        status, said = orders(airflow, TOPIC, "ed", verb="skip", rate=5)
        assert (status, said["code"]) == (422, "SPEC_INVALID"), said
    assert given(airflow, "gains") == []


@pytest.mark.parametrize(("name", "says"), [("gains", "converging: "), ("behind", "not converging")])
def test_whether_a_build_catches_up_is_said_and_drawn(airflow: AirflowProcess, name: str, says: str) -> None:
    with chromium(airflow) as opened:
        page = opened("vera", f"/plugin/table-backfills/{address(airflow, name)}")
        page.get_by_text(re.compile(f"^{says}")).first.wait_for()
        assert page.locator("svg").count() >= 2, "pending epochs, and the two rates"
        assert page.evaluate("document.querySelectorAll('svg polyline, svg path').length") >= 3


def test_a_restored_target_is_recovered_without_an_epoch(airflow: AirflowProcess) -> None:
    path = f"/plugin/table-backfills/{address(airflow, 'changed')}"
    with chromium(airflow) as opened:
        page = opened("vera", path)
        page.get_by_text("TARGET_DIVERGED").first.wait_for()
        assert page.get_by_role("button", name="Recover …").count() == 0
        assert orders(airflow, "changed", "vera", verb="recover", why="x")[0] == 403

        page = opened("ed", path)
        page.get_by_role("button", name="Recover …").click()
        page.get_by_label("Why (required)").fill("restored before that commit")
        page.get_by_role("button", name="Recover", exact=True).click()
        page.get_by_text(re.compile("recover: run .* of DAG steer_table_backfill")).wait_for()
    [run] = airflow.ask("ada", "GET", "api/v2/dags/steer_table_backfill/dagRuns")["dag_runs"]
    order = {name: run["conf"].get(name) for name in ("verb", "target", "epoch", "why")}
    assert order == {
        **{"verb": "recover", "target": target(airflow, "changed"), "epoch": None},
        "why": "restored before that commit",
    }
