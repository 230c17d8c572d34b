"""The page of builds below which something is not as it should be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import delete

from airflow_backfill.builds import glance
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.plugin import whole
from airflow_backfill.plugin.clipped import MOST
from airflow_backfill.plugin.tasks import CLAIMS
from airflow_backfill.testing.applications import main
from tests.airflow.without_spark import built
from tests.plugin import database
from tests.plugin.conftest import Client, key_of
from tests.plugin.database import RUN, worked
from tests.plugin.test_declared import dag_of, group


def overview(client: Client, user: str = "all") -> dict[str, Any]:
    [build] = client(user).get("builds").json()["builds"]
    found: dict[str, Any] = build
    return found


def page(client: Client, dag: str = "orders_dag", user: str = "all") -> dict[str, Any]:
    answer = client(user).get(f"dags/{dag}/builds/{key_of(client)}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def documents(target: str) -> list[Path]:
    return sorted(Path(f"{target}.backfill/attempts").glob("?????????.json"))


def test_the_last_attempts_of_a_dag_may_all_be_damaged(client: Client, target: str) -> None:
    for n in range(CLAIMS):
        worked("orders_dag", "orders.consume_log", target, run_id=f"run {n}")
    for file in documents(target)[-CLAIMS:]:
        file.write_text("{")
    for one in (overview(client), page(client)):
        assert (one["phase"], one["dags"], one["trouble"]["code"]) == ("snapshot", ["orders_dag"], "DOCUMENT_DAMAGED")
    worked("param_dag", "plan", target)
    documents(target)[-1].write_text("{")
    answer = client("editor").get(f"dags/param_dag/builds/{key_of(client)}").json()
    assert answer.get("phase") is None and answer["trouble"]["code"] == "DOCUMENT_DAMAGED", "it has not built it"


def test_a_state_store_elsewhere_hides_no_build(client: Client, target: str) -> None:
    """Airflow's database then holds no attempt, only where it lies."""
    database.emptied()
    database.ran("orders_dag", "orders.snapshot", target=target, ledger_conn_id=None, attempt='"s3://states/17"')
    assert overview(client)["dags"] == ["orders_dag"]
    database.ran("other_dag", "plan", target=target, ledger_conn_id=None, attempt='"s3://states/18"')
    assert overview(client, "other")["trouble"]["code"] == "NOT_PLANNED", "no attempt of it lies beside the target"


def test_a_nul_in_what_a_task_has_rendered_is_not_read(client: Client, target: str) -> None:
    """PostgreSQL would end the query, and with it the page of everybody."""
    database.ran("orders_dag", "orders.gate", target=target, ledger_conn_id="a\0b", attempt="{}")
    assert [task["task_id"] for task in overview(client)["tasks"]] == ["orders.snapshot"]
    database.emptied()
    database.ran("orders_dag", "orders.gate", target=target, ledger_conn_id="a\\u0000b", attempt="{}")
    assert overview(client)["tasks"], "a backslash and these letters are none"


def test_each_explanation_stays_reachable(client: Client, target: str) -> None:
    control = ControlFolder.beside(target)
    first = control.draw_attempt({"task": "explain", "dag_id": "steer", "by": "ed", "why": "ticket 4711"}, floor=0)
    line = ["--target", target, "--generation", str(first.generation), "--attempt", first.name, "--key", "id=42"]
    assert main("explain", line)["code"] == "OK"
    for n in range(6):
        worked("orders_dag", "orders.snapshot", target, run_id=f"run {n}")
    found = page(client)
    assert first.generation not in {one["generation"] for one in found["attempts"]}
    assert found["explanations"] == [first.generation]
    path = f"dags/orders_dag/builds/{key_of(client)}/explanations/{first.generation}"
    told = client("editor").get(path).json()
    assert (told["by"], told["why"]) == ("ed", "ticket 4711") and told["text"].startswith("id=42 in ")
    documents(target)[first.generation - 1].unlink()
    assert client("editor").get(path).json()["text"] == told["text"], "its attempt is forgotten"


def test_a_target_that_was_deleted_by_a_cancel_needs_nobody(client: Client, target: str) -> None:
    worked("orders_dag", "orders.consume_log", target, state="failed")  # it was under way
    me = worked("steer_dag", "cancel", target, task="cancel", operator="CancelOperator")
    cancel = ["--target", target, "--generation", str(me.generation), "--attempt", me.name, "--drop"]
    assert main("cancel", cancel)["code"] == "OK"
    one = overview(client)
    assert (one["phase"], one["attention"], one["trouble"]) == ("dropped", "done", None)
    found = page(client)
    assert "deleted the target" in found["health"]["why"] and found["attempts"][-1]["task"] == "cancel"


def test_a_target_that_is_gone_for_no_known_reason_is_trouble(client: Client, target: str) -> None:
    shutil.rmtree(target)
    one = overview(client)
    assert (one.get("phase"), one["attention"], one["trouble"]["code"]) == (None, "trouble", "NOT_PLANNED")
    assert one["trouble"]["way_out"]


def test_a_dag_that_was_renamed_takes_its_build_along(client: Client, target: str) -> None:
    worked("param_dag", "orders.consume_log", target)
    assert (overview(client)["dag_id"], set(overview(client)["dags"])) == ("param_dag", {"orders_dag", "param_dag"})
    assert overview(client, "viewer")["dag_id"] == "orders_dag", "who may see the old one only sees it there"
    assert page(client, "orders_dag")["phase"] == page(client, "param_dag")["phase"] == "snapshot"


def test_a_deleted_run_leaves_a_build_of_other_runs(client: Client, target: str) -> None:
    worked("orders_dag", "orders.consume_log", target, run_id="second")
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == RUN))
    assert [task["run_id"] for task in overview(client)["tasks"]] == ["second"]
    with create_session() as session:
        session.execute(delete(DagRun))
    assert client("all").get("builds").json()["builds"] == []


def test_a_build_of_many_runs_is_told_in_few_words(client: Client, target: str) -> None:
    """Airflow keeps thirty runs of each task of a follower, and the overview is asked for every five seconds."""
    for n in range(30):
        worked("orders_dag", "orders.upstream", target, task="upstream", run_id=f"run {n}", state="success")
    for one in (overview(client), page(client)):
        assert [task["run_id"] for task in one["tasks"]] == ["run 29"]


def test_two_dags_that_build_one_target_show_it_once(client: Client, target: str) -> None:
    worked("other_dag", "orders.consume_log", target)
    assert set(overview(client)["dags"]) == {"orders_dag", "other_dag"}
    for user, dag in (("viewer", "orders_dag"), ("other", "other_dag")):
        one = overview(client, user)
        assert (one["dag_id"], one["dags"], {task["dag_id"] for task in one["tasks"]}) == (dag, [dag], {dag})


ODD = ["a name", "100%25 sure", "größe_表", "<b>odd</b> & so?#1"]


@pytest.mark.parametrize("name", ODD)
def test_a_targets_name_may_have_any_character(name: str, source: Path, tmp_path: Path, client: Client) -> None:
    target = str(tmp_path / name)
    built(source, Path(target), "plan", "snapshot")
    worked("orders_dag", "orders.snapshot", target)
    one = overview(client)
    assert (one["target"], one["phase"]) == (target, "snapshot") and one["key"].isalnum()
    path = f"dags/orders_dag/builds/{one['key']}"
    assert client("editor").post(f"{path}/commands", json={"verb": "pause"}).status_code == 201
    assert client("editor").get(path).json()["in_force"]["paused"] is True
    tab = client("viewer").get(f"dags/orders_dag/runs/{RUN}/tasks/orders.snapshot/-1/builds").json()
    assert [build["target"] for build in tab["builds"]] == [target]


def test_a_name_that_is_refused_is_shown_with_its_error(tmp_path: Path, client: Client) -> None:
    target = str(tmp_path / "it's quoted")
    me = worked("orders_dag", "orders.plan", target, task="plan", state="failed")
    ControlFolder.beside(target).store_outcome(me, {"code": "SPEC_INVALID", "message": "target: …", "retry": False})
    one = overview(client)
    assert (one["target"], one["phase"], one["attention"]) == (target, "planning", "trouble")
    assert "SPEC_INVALID" in one["health"]["why"] and page(client)["attempts"][0]["outcome"] == "SPEC_INVALID"


def test_a_very_long_message_is_cut(client: Client, target: str) -> None:
    me = worked("orders_dag", "orders.verify", target, task="verify", state="failed")
    differs = "1000 keys differ: " + ", ".join(f"id = {n}" for n in range(100_000))
    outcome = {"code": "VERIFICATION_FAILED", "message": differs, "retry": False, "data": {}}
    ControlFolder.beside(target).store_outcome(me, outcome)
    answer = client("viewer").get(f"dags/orders_dag/builds/{key_of(client)}")
    [message] = [one["message"] for one in answer.json()["attempts"] if one["message"]]
    assert message.startswith(differs[:MOST]) and f"{len(differs):,} characters" in message
    assert len(answer.content) < 100_000 and len(client("viewer").get("builds").content) < 100_000


def test_a_mapped_task_has_its_own_tab_and_is_cleared_alone(client: Client, target: str) -> None:
    worked("orders_dag", "orders.lanes", target, map_index=3, state="failed")
    database.ran("orders_dag", "orders.lanes", target=target, map_index=4, state="success")
    worked("orders_dag", "orders.lanes", target, map_index=5, state="success")
    assert [(one["task_id"], one["map_index"]) for one in page(client)["run"]["failed"]] == [("orders.lanes", 3)]
    for one in (overview(client), page(client)):
        assert one["problems"] == ["task orders.lanes [3] failed; see its log"], "although a later lane did not"
    tab = client("viewer").get(f"dags/orders_dag/runs/{RUN}/tasks/orders.lanes/3/builds").json()
    assert [build["name"] for build in tab["builds"]] == ["orders"]


def test_a_gate_that_has_failed_needs_attention(client: Client, target: str) -> None:
    """It draws no attempt, and the task that worked last has succeeded."""
    of_run = {"target": f"{target}/", "state": "failed", "operator": "GateSensor"}
    worked("orders_dag", "orders.snapshot", target, run_id="run 1", state="success")
    database.ran("orders_dag", "orders.gate", run_id="run 1", **of_run)
    for one in (overview(client), page(client)):
        assert one["problems"] == ["task orders.gate failed; see its log"]
    assert overview(client)["attention"] == "trouble"
    database.ran("orders_dag", "orders.gate", run_id="run 2", **{**of_run, "state": "deferred"})
    assert overview(client)["problems"] == [], "another run waits at the gate"


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_whose_tasks_found_their_goals_reached_is_the_one_that_waits(
    client: Client, target: str, kept: bool
) -> None:
    """It was triggered because the gate of the run before had failed, or that run was deleted."""
    database.defined(dag_of("orders_dag", group(target)))
    if kept:
        database.ran("orders_dag", "orders.gate", target=target, state="failed", operator="GateSensor")
    else:
        database.forgotten("orders_dag")
    database.ran("orders_dag", "orders.gate", run_id="run 2", target=target, state="deferred", operator="GateSensor")
    database.waits("orders_dag", "orders.gate", -1, "the time window is closed", run_id="run 2")
    run = page(client)["run"]
    assert (run["run_id"], run["gate"], run["failed"]) == ("run 2", ["the time window is closed"], [])
    assert run["gate_at"] == 1000 * database.NOW.timestamp()


def test_a_run_that_was_ended_at_its_timeout_needs_attention(client: Client, target: str) -> None:
    """Airflow skips its tasks, and nobody goes on."""
    database.ran("orders_dag", "orders.gate", target=target, state="skipped", operator="GateSensor")
    assert overview(client)["problems"] == [], "the run goes on"
    database.ended("orders_dag", "failed")
    assert overview(client)["problems"] == ["task orders.gate was skipped, and its DAG run failed; see its log"]


def test_a_gate_that_failed_of_a_build_that_is_finished_needs_nobody(client: Client, target: str, source: Path) -> None:
    database.ran("orders_dag", "orders.gate", target=target, state="failed", operator="GateSensor")
    built(source, Path(target), "consume_log", "catch_up", "verify", "finish")
    assert (overview(client)["problems"], overview(client)["attention"]) == ([], "done")


def test_each_table_of_a_mapped_group_has_its_own_gate_and_approval(
    source: Path, tmp_path: Path, client: Client
) -> None:
    """Whoever approves one table must not hand another one over."""
    for n in (0, 1):
        target = str(tmp_path / f"table {n}")
        built(source, Path(target), "plan", "snapshot")
        worked("orders_dag", "copied.build.consume_log", target, task="consume_log", map_index=n, state="deferred")
        database.waits("orders_dag", "copied.build.consume_log", n, f"table {n} is behind")
        database.asks("orders_dag", "copied.build.approve", n)
    for build in client("editor").get("builds").json()["builds"]:
        n = int(build["target"][-1])
        run = client("editor").get(f"dags/orders_dag/builds/{build['key']}").json()["run"]
        assert (run["gate"], [one["map_index"] for one in run["asked"]]) == ([f"table {n} is behind"], [n])


def test_each_build_of_a_dag_without_task_groups_has_its_own_gate_and_approval(
    source: Path, tmp_path: Path, client: Client
) -> None:
    for n in (0, 1):
        target, of_build = str(tmp_path / f"table {n}"), {"task": "consume_log", "approval": f"approve_{n}"}
        built(source, Path(target), "plan", "snapshot")
        worked("orders_dag", f"consume_log_{n}", target, state="deferred", **of_build)
        database.waits("orders_dag", f"consume_log_{n}", -1, f"table {n} is behind")
        database.asks("orders_dag", f"approve_{n}", -1)
    database.asks("orders_dag", "both", -1)
    for build in client("editor").get("builds").json()["builds"]:
        n = build["target"][-1]
        run = client("editor").get(f"dags/orders_dag/builds/{build['key']}").json()["run"]
        asked = sorted(one["task_id"] for one in run["asked"])
        assert (run["gate"], asked) == ([f"table {n} is behind"], [f"approve_{n}", "both"])


def test_the_approval_of_a_build_with_lanes_is_asked_of_it(client: Client, target: str) -> None:
    worked("orders_dag", "orders.lanes", target, map_index=3, state="success")
    database.asks("orders_dag", "orders.approve", -1)
    assert [one["task_id"] for one in page(client)["run"]["asked"]] == ["orders.approve"]


@pytest.mark.parametrize(
    ("by", "why", "said"),
    [
        ("ann", "sums differ", "rejected by ann: sums differ"),
        ("ann", None, "rejected by ann"),
        (None, None, "not approved in time"),
    ],
)
def test_a_hand_off_that_is_refused_is_told_and_cleared_with_the_tasks_that_failed_of_it(
    client: Client, target: str, by: str | None, why: str | None, said: str
) -> None:
    """A consumer of the log that is cleared alone would find it refused again."""
    database.asks("orders_dag", "orders.approve", -1)
    database.rejects("orders_dag", "orders.approve", -1, by, why)
    worked("orders_dag", "orders.consume_log", target, task="consume_log", state="failed")
    found = page(client)
    assert found["problems"][0] == f"task orders.approve: the hand-off was {said}"
    assert [one["task_id"] for one in found["run"]["failed"]] == ["orders.approve", "orders.consume_log"]
    assert found["run"]["asked"] == []
    built(Path(target).with_name("source"), Path(target), "cancel")
    assert not any("hand-off" in problem for problem in page(client)["problems"]), "it is over"


@pytest.mark.parametrize("minutes", [-5, 5])
def test_the_clock_of_the_api_server_may_be_five_minutes_wrong(
    minutes: int, client: Client, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = worked("orders_dag", "orders.consume_log", target)
    control = ControlFolder.beside(target)
    now = int(control.attempt(me.generation)["at"])
    control.announce(me, {"at": now, "alive": now + 60_000})
    wrong = now + 60_000 + minutes * 60_000
    for place in (glance, whole):
        monkeypatch.setattr(place, "now_ms", lambda: wrong)
    for one in (overview(client), page(client)):
        assert (one["health"]["condition"], one["health"]["needs_attention"]) == ("working", False)


def test_nobody_has_built_anything(client: Client) -> None:
    assert client("all").get("builds").json()["builds"] == []
