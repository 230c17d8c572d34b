"""The page in a real Airflow and a real Chromium: two builds, a writer, each kind of user, each command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.without_spark import commit_to, foreign, make_source
from tests.plugin.airflow_process import CHROMIUM, AirflowProcess, chromium, states

pytestmark = [
    pytest.mark.soak,
    pytest.mark.airflow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs Debian's package chromium"),
]

RETURNS = "returns_of_orders_with_the_reason_that_a_customer_gave_to_us"
NAMES = ["orders", RETURNS, "parcels", "clicks"]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowProcess]:
    """Airflow with four builds. The copy of ``parcels`` differs, the others wait for an approval."""
    place = tmp_path_factory.mktemp("shop")
    for name in NAMES:
        make_source(place / "raw" / name)
    airflow = AirflowProcess(place, NAMES, alone=("parcels",))
    (place / "marts").mkdir()
    (place / "marts" / "parcels.differs").touch()
    airflow.run("db", "migrate")
    with airflow.serving("standalone"):
        dags = {f"shop_{name}" for name in NAMES} | {"steer_table_backfill"}
        airflow.wait(
            "DAGs", lambda: dags <= {one["dag_id"] for one in airflow.ask("ada", "GET", "api/v2/dags")["dags"]}
        )
        for name in NAMES:
            airflow.ask("ada", "POST", f"api/v2/dags/shop_{name}/dagRuns", {"logical_date": None})
        yield airflow


def address(airflow: AirflowProcess, name: str) -> str:
    key = sha256(f"{airflow.place}/marts/{name}".encode()).hexdigest()[:16]
    return f"shop_{name}/{key}"


def phase(airflow: AirflowProcess, name: str) -> str:
    builds = airflow.ask("ada", "GET", "table-backfill/builds")["builds"]
    return next((str(one.get("phase")) for one in builds if one.get("name") == name), "")


def commands(airflow: AirflowProcess, name: str) -> list[tuple[str, str | None]]:
    reader = BuildReader(f"{airflow.place}/marts/{name}")
    return [(one.verb.value, one.signed.by) for _, one in reader.commands(reader.state().plan.build)]


CUT_OFF = """[...document.querySelectorAll("a, button")]
    .filter((one) => !one.closest("table") && one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.textContent)"""
"""What a phone does not show whole. Tables are moved aside."""


def press(page: Any, name: str, said: str | re.Pattern[str]) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    page.get_by_text(said).first.wait_for()


def test_every_command_as_every_kind_of_user(airflow: AirflowProcess) -> None:
    airflow.wait("an approval", lambda: states(airflow, "shop_orders").get("orders.approve") == "awaiting_input")
    airflow.wait("a snapshot", lambda: phase(airflow, "orders") == "consume_log")
    path = f"/plugin/table-backfills/{address(airflow, 'orders')}"
    commit_to(airflow.place / "raw" / "orders", 3)
    with chromium(airflow) as opened:
        page = opened("vera", "/plugin/table-backfills")
        page.get_by_role("link", name="orders", exact=True).click()  # from the overview to the build, as a viewer
        page.get_by_text("You may view this build but not command it").wait_for()
        assert page.get_by_role("button", name="Pause").count() == 0

        page = opened("ed", path, dark=True)
        for name, said in (("Pause", "pause is command 1"), ("Resume", "resume is command 2")):
            press(page, name, said)
        for name, said in (("Hold the gate", "hold is command 3"), ("Release the gate", "release is command 4")):
            press(page, name, said)
        page.get_by_role("button", name="Throttle …").click()
        page.get_by_label("Rows per second").fill("5000")
        page.get_by_role("textbox", name="Why").fill("nightly load")
        page.get_by_role("textbox", name="Why").press("Enter")
        page.get_by_text("throttle is command 5").wait_for()
        page.get_by_role("cell", name="nightly load").wait_for()
        given = ["pause", "resume", "hold", "release", "throttle"]
        assert commands(airflow, "orders") == [(verb, "ed") for verb in given]

        page.get_by_role("button", name="Prove again …").click()
        page.get_by_role("button", name="Prove again", exact=True).click()
        steered(airflow, page, "prove")

        page.get_by_label("Reason for your answer").fill("the sums agree")
        press(page, "Approve", "Airflow has received your answer")
        page.get_by_role("row", name=re.compile("approve ed .* the sums agree")).wait_for()  # in the log of commands
        airflow.wait("the end of orders", lambda: phase(airflow, "orders") == "finished")
        page.get_by_text("Proven equal to the source").wait_for()  # without a reload

    command_line = ("-m", "airflow_backfill.cli.main")
    airflow.run(*command_line, "approve", str(airflow.place / "marts" / "orders"))  # as the page did: no second answer
    with pytest.raises(AssertionError, match="has the answer Approve by ed"):
        airflow.run(*command_line, "reject", str(airflow.place / "marts" / "orders"))
    events = airflow.ask("ada", "GET", "api/v2/eventLogs?limit=200&dag_id=shop_orders")["event_logs"]
    said = {(one["event"], one["owner"]) for one in events}
    assert {(f"table_backfill_{verb}", "ed") for verb in (*given, "prove")} <= said


def test_a_cancel_with_drop_asks_why_and_is_done_by_a_task(airflow: AirflowProcess) -> None:
    airflow.wait("a build", lambda: phase(airflow, RETURNS) not in ("", "planning"))
    target = airflow.place / "marts" / RETURNS
    reader = BuildReader(str(target))
    if reader.state().phase.value == "finished":
        pytest.skip("the build was faster")
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, RETURNS)}", width=420)
        page.get_by_role("button", name="Cancel …").click()
        assert page.evaluate(CUT_OFF) == []
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Cancel and delete").click()
        assert page.get_by_label("Why (required)").evaluate("field => field.validity.valueMissing")
        page.get_by_label("Why (required)").fill("built with a wrong key")
        page.get_by_role("button", name="Cancel and delete").click()
        page.get_by_text(re.compile("cancel: run .* of DAG steer_table_backfill")).wait_for()
        airflow.wait("the drop", lambda: not target.exists())
        page.get_by_text(re.compile("deleted the target")).first.wait_for()  # without a reload
        page.get_by_role("heading", name="Attempts", exact=True).wait_for()
        assert page.get_by_role("button", name=re.compile("Pause|Cancel")).count() == 0


def asked_again(airflow: AirflowProcess, page: Any, why: str = "") -> None:
    """After a rejection: the page says who rejected, and clears what failed of it."""
    airflow.wait("a rejection", lambda: states(airflow, "shop_clicks").get("clicks.approve") == "failed")
    page.get_by_text(f"task clicks.approve: the hand-off was rejected by ed{why}").first.wait_for()  # without a reload
    airflow.wait("its end", lambda: states(airflow, "shop_clicks").get("clicks.consume_log") == "failed")
    press(page, "Clear clicks.approve, clicks.consume_log", "Airflow runs clicks.approve, clicks.consume_log again")
    airflow.wait("a question", lambda: states(airflow, "shop_clicks").get("clicks.approve") == "awaiting_input")


def test_a_hand_off_is_rejected_and_its_build_cancelled(airflow: AirflowProcess) -> None:
    airflow.wait("an approval", lambda: states(airflow, "shop_clicks").get("clicks.approve") == "awaiting_input")
    airflow.wait("a snapshot", lambda: phase(airflow, "clicks") == "consume_log")
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, 'clicks')}")
        page.get_by_label("Reason for your answer").fill("wrong sums")
        press(page, "Reject", "Airflow has received your answer: Reject")
        asked_again(airflow, page, ": wrong sums")
        page.get_by_role("button", name="Reject", exact=True).wait_for()

        order = {"verb": "reject", "target": str(airflow.place / "marts" / "clicks")}
        airflow.ask("ed", "POST", "api/v2/dags/steer_table_backfill/dagRuns", {"logical_date": None, "conf": order})
        asked_again(airflow, page)
        page.get_by_role("button", name="Cancel …").click()
        page.get_by_role("textbox", name="Why").fill("not wanted any more")
        page.get_by_role("button", name="Cancel", exact=True).click()
        steered(airflow, page, "cancel")
        page.get_by_text("the build was cancelled").first.wait_for()
    assert phase(airflow, "clicks") == "cancelled" and (airflow.place / "marts" / "clicks").exists()


def tab_to(page: Any, text: str) -> None:
    """Press Tab until what is in focus says this."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == text:
            return
    raise AssertionError(f"Tab does not reach {text}")


def test_commands_by_keyboard_alone(airflow: AirflowProcess) -> None:
    airflow.wait("the end of orders", lambda: phase(airflow, "orders") == "finished")
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, 'orders')}", dark=True)
        page.get_by_role("button", name="Throttle …").wait_for()
        tab_to(page, "Throttle …")
        page.keyboard.press("Enter")
        page.keyboard.type("900")  # the first field has the focus
        page.keyboard.press("Tab")
        page.keyboard.type("70000")
        page.get_by_label("Until").fill("2027-01-31T06:00")
        page.get_by_role("textbox", name="Why").focus()
        page.keyboard.type("until the morning")
        page.keyboard.press("Enter")
        page.get_by_text(re.compile("throttle is command")).wait_for()
        tab_to(page, "Prove again …")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Prove again", exact=True).wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Prove again", exact=True).wait_for(state="detached")
    reader = BuildReader(f"{airflow.place}/marts/orders")
    _, last = reader.commands(reader.state().plan.build)[-1]
    assert (last.rate, last.byte_rate, last.signed.why) == (900, 70_000, "until the morning")
    assert last.until is not None and last.until // 86_400_000 in (20_848, 20_849), "in some time zone"


def test_what_the_page_draws_and_where_its_links_lead(airflow: AirflowProcess) -> None:
    airflow.wait("the end of orders", lambda: phase(airflow, "orders") == "finished")
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, 'orders')}")
        page.get_by_role("heading", name="Attempts", exact=True).wait_for()
        assert page.get_by_role("img").count() >= 1, "the splits"
        page.get_by_role("link", name="log", exact=True).first.click()
        page.wait_for_url(re.compile("/dags/(shop_orders|steer_table_backfill)/runs/.*/tasks/"))

        page = opened("ed", "/plugin/table-backfills")
        done = page.get_by_role("button", name=re.compile("^[1-9]\\d* done$"))
        done.click()
        assert done.get_attribute("aria-pressed") == "true"
        page.get_by_role("link", name="orders", exact=True).wait_for()
        assert page.get_by_role("link", name="clicks", exact=True).count() == 0
        done.click()
        page.get_by_role("link", name="clicks", exact=True).wait_for()
        page.get_by_role("searchbox").fill("nothing has this name")
        page.get_by_text("No build matches").wait_for()


def test_tabs_and_the_keyboard(airflow: AirflowProcess) -> None:
    airflow.wait("a build", lambda: phase(airflow, "orders") not in ("", "planning"))
    [run] = airflow.ask("ada", "GET", "api/v2/dags/shop_orders/dagRuns")["dag_runs"]
    here = f"/dags/shop_orders/runs/{run['dag_run_id']}"
    with chromium(airflow) as opened:
        page = opened("ada", f"{here}/plugin/table-backfills-of-run")
        page.get_by_role("heading", name="orders", exact=True).wait_for()
        page = opened("ada", f"{here}/tasks/orders.snapshot/plugin/table-backfills-of-task")
        page.get_by_role("heading", name="orders", exact=True).wait_for()
        page = opened("ada", f"{here}/tasks/orders.approve/plugin/table-backfills-of-task")
        page.get_by_role("heading", name="No table backfill").wait_for()

        page = opened("ada", "/plugin/table-backfills")
        page.get_by_role("searchbox").wait_for()
        page.get_by_role("searchbox").focus()
        page.keyboard.type("orders")
        for _ in range(5):  # the four filters, then the first build: the other one was dropped
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "orders"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="orders", exact=True).wait_for()


def refused(airflow: AirflowProcess, path: str, body: Any) -> int:
    """The status that a viewer gets who sends what the page has no button for."""
    return airflow.answer("vera", "POST", path, body).status_code


def steered(airflow: AirflowProcess, page: Any, verb: str) -> None:
    """Wait until the run that the page has started has carried the order out."""
    said = page.get_by_text(re.compile(f"{verb}: run .* of DAG steer_table_backfill")).inner_text()
    run = said.split(" run ")[1].split(" of DAG ")[0]
    airflow.wait(f"a {verb}", lambda: states(airflow, "steer_table_backfill", run).get(verb) == "success")


def test_a_copy_that_differs_is_repaired_and_its_task_cleared(airflow: AirflowProcess) -> None:
    airflow.wait("a proof that fails", lambda: states(airflow, "shop_parcels").get("parcels.verify") == "failed")
    path, target = address(airflow, "parcels"), airflow.place / "marts" / "parcels"
    orders = f"table-backfill/dags/{path.replace('/', '/builds/')}/commands"
    [run] = airflow.ask("ada", "GET", "api/v2/dags/shop_parcels/dagRuns")["dag_runs"]
    with chromium(airflow) as opened:
        page = opened("vera", f"/plugin/table-backfills/{path}")
        page.get_by_text("The copy differs").wait_for()
        page.get_by_text("which rewrites the keys that differ").wait_for()
        page.get_by_text("1 key: 1 with other values, at epoch 3").wait_for()
        page.get_by_text("People who may command the build see which keys differ").wait_for()
        assert page.get_by_text("id=7").count() == 0
        assert page.get_by_role("button", name=re.compile("Repair|Clear|Explain|Cancel")).count() == 0
        assert refused(airflow, orders, {"verb": "repair", "why": "x"}) == 403
        clear = {"dry_run": False, "dag_run_id": run["dag_run_id"], "task_ids": ["parcels.verify"]}
        assert refused(airflow, "api/v2/dags/shop_parcels/clearTaskInstances", clear) == 403

        page = opened("ed", f"/plugin/table-backfills/{path}")
        page.get_by_role("cell", name="id=7").wait_for()
        page.get_by_role("button", name="Explain …", exact=True).click()
        assert page.get_by_label(re.compile("^id")).input_value() == "7"
        page.get_by_role("button", name="Repair …").click()
        page.get_by_role("button", name="Repair", exact=True).click()
        assert page.get_by_label("Why (required)").evaluate("field => field.validity.valueMissing")
        page.get_by_label("Why (required)").fill("the job of the third wrote into it")
        page.get_by_role("button", name="Repair", exact=True).click()
        steered(airflow, page, "repair")
        newest = BuildReader(str(target)).state().newest
        assert newest is not None and newest.record.event.value == "repair"

        target.with_name("parcels.differs").unlink()
        press(page, "Clear parcels.verify", "Airflow runs parcels.verify again, from the last commit.")
        airflow.wait("the end of parcels", lambda: phase(airflow, "parcels") == "finished")
        page.get_by_text("Proven equal to the source").wait_for()


def test_a_target_that_somebody_changed_is_recovered_and_proven_again(airflow: AirflowProcess) -> None:
    airflow.wait("the end of parcels", lambda: phase(airflow, "parcels") == "finished")
    path, target = address(airflow, "parcels"), airflow.place / "marts" / "parcels"
    orders = f"table-backfill/dags/{path.replace('/', '/builds/')}/commands"
    stands = BuildReader(str(target)).state().handoff
    foreign(target)
    with chromium(airflow) as opened:
        page = opened("vera", f"/plugin/table-backfills/{path}", dark=True)
        page.get_by_text("TARGET_DIVERGED").wait_for()
        page.get_by_text("You may view this build but not command it").wait_for()
        assert page.get_by_role("button", name=re.compile("Recover|Cancel")).count() == 0
        assert refused(airflow, orders, {"verb": "recover", "epoch": stands, "why": "x"}) == 403

        page = opened("ed", f"/plugin/table-backfills/{path}", width=420)
        page.get_by_role("button", name="Recover …").click()
        page.get_by_label("Epoch").fill(str(stands))
        page.get_by_label("Why (required)").fill("rows were put right with RESTORE")
        page.get_by_role("button", name="Recover", exact=True).click()
        steered(airflow, page, "recover")
        page.get_by_text("Not proven yet").wait_for()  # without a reload
        press(page, "Clear parcels.verify", "Airflow runs parcels.verify again, from the last commit.")
        airflow.wait("the end of parcels", lambda: phase(airflow, "parcels") == "finished")
        page.get_by_text("Proven equal to the source").wait_for()


def test_a_row_is_explained_to_those_who_may_command(airflow: AirflowProcess) -> None:
    airflow.wait("a build", lambda: phase(airflow, "orders") not in ("", "planning"))
    path = f"/plugin/table-backfills/{address(airflow, 'orders')}"
    with chromium(airflow) as opened:
        page = opened("ed", path)
        page.get_by_role("button", name="Explain a row …").click()
        page.get_by_label(re.compile("^id")).fill("42")
        page.get_by_role("textbox", name="Why").fill("a customer asks")
        page.get_by_role("button", name="Explain a row", exact=True).click()
        steered(airflow, page, "explain")
        page.get_by_text("asked by ed: a customer asks").wait_for()  # without a reload
        page.get_by_role("button", name=re.compile("Answer of attempt")).click()
        page.get_by_text(f"id=42 in {airflow.place}/marts/orders").wait_for()
        page.get_by_text("no row is read without Spark").wait_for()

        page.get_by_role("button", name=re.compile("Answer of attempt")).click()
        held: list[Any] = []
        page.route("**/explanations/*", lambda route: held.append(route))
        page.get_by_role("button", name=re.compile("Answer of attempt")).click()
        page.get_by_text("Loading …").wait_for()
        page.get_by_role("button", name=re.compile("Answer of attempt")).click()
        with page.expect_response("**/explanations/*"):
            held[0].continue_()
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        assert page.get_by_text("no row is read without Spark").count() == 0, "closed before it came"

        page = opened("vera", path)
        page.get_by_role("heading", name="Attempts", exact=True).wait_for()
        assert page.get_by_text("Why a row is as it is").count() == 0


def test_what_is_shown_and_typed_outlives_answers_that_are_late_or_never_come(airflow: AirflowProcess) -> None:
    airflow.wait("a build", lambda: phase(airflow, "orders") not in ("", "planning"))
    asked, older = "**/table-backfill/dags/*/builds/*", "this page shows older data"
    late = {"trouble": {"code": "SOURCE_UNAVAILABLE", "message": "the store has not answered", "retry": True}}
    with chromium(airflow) as opened:
        page = opened("ed", f"/plugin/table-backfills/{address(airflow, 'orders')}")
        page.get_by_role("button", name="Throttle …").click()
        page.get_by_label("Rows per second").fill("7")
        page.get_by_role("textbox", name="Why").fill("the store is slow")
        page.route(asked, lambda route: route.fulfill(json=late))
        page.get_by_text("SOURCE_UNAVAILABLE").wait_for()
        assert page.get_by_text(older).is_visible() and page.get_by_role("heading", name="Progress").is_visible()
        assert page.get_by_role("textbox", name="Why").input_value() == "the store is slow"
        page.unroute(asked)
        page.get_by_text(older).wait_for(state="detached")
        assert page.get_by_label("Rows per second").input_value() == "7"

        page.route(asked, lambda route: None)
        page.get_by_text("the server does not answer").wait_for()
        page.unroute(asked)
        page.get_by_text(older).wait_for(state="detached")
        page.context.clear_cookies()
        page.get_by_text("You are signed out").wait_for()


def test_a_tab_says_that_it_shows_older_data(airflow: AirflowProcess) -> None:
    [run] = airflow.ask("ada", "GET", "api/v2/dags/shop_orders/dagRuns")["dag_runs"]
    here = f"/dags/shop_orders/runs/{run['dag_run_id']}/tasks/orders.approve/plugin/table-backfills-of-task"
    with chromium(airflow) as opened:
        page = opened("ed", here)
        page.get_by_role("heading", name="No table backfill").wait_for()
        page.route("**/table-backfill/dags/**", lambda route: route.abort())
        page.get_by_text("this page shows older data").wait_for()


def test_a_build_stays_when_all_its_runs_are_deleted(airflow: AirflowProcess) -> None:
    airflow.wait("the end of parcels", lambda: phase(airflow, "parcels") == "finished")
    for run in airflow.ask("ada", "GET", "api/v2/dags/shop_parcels/dagRuns")["dag_runs"]:
        path = f"api/v2/dags/shop_parcels/dagRuns/{run['dag_run_id']}"
        assert airflow.answer("ada", "DELETE", path).status_code == 204
    assert phase(airflow, "parcels") == "finished"
    with chromium(airflow) as opened:
        page = opened("ed", "/plugin/table-backfills")
        page.get_by_role("link", name="parcels").click()
        page.get_by_text("Airflow keeps no run of this build").wait_for()
        page.get_by_text("Proven equal to the source").wait_for()
        press(page, "Pause", "pause is command")
    assert commands(airflow, "parcels")[-1] == ("pause", "ed")
