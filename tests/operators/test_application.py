"""spark-submit as the operators call it: a script in its place, and YARN's REST interface."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.timeout import timeout

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.core.errors import ApplicationFailed
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.reports.attempt_status import Life
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.process import lives
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.requests import REQUESTS
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.service import ServiceOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.spark.kafka.reader_options import connection
from tests.airflow.task import new_context
from tests.airflow.without_spark import built
from tests.loopback import answering
from tests.operators.spark_submit_script import SCRIPT

LAKE = json.dumps({"conn_type": "table_backfill", "extra": {"aws_secret_access_key": "nightingale"}})
KAFKA = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "kafka:9092", "ssl.keystore.key": "canary"}})


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """What spark-submit was called with."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SUBMITTED", str(tmp_path / "submitted.json"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return lambda: json.loads((tmp_path / "submitted.json").read_text())


def drawn(target):
    return BuildReader(str(target)).control.attempts()


def newest_of(target):
    return attempts(BuildReader(str(target)).control, None, now_ms(), 1).statuses[-1]


def test_without_its_connection_no_application_starts_elsewhere(context, source, target, submitted, monkeypatch):
    """Airflow's hook takes YARN if it does not get the connection: another cluster, perhaps another queue."""
    built(source, target, "plan")
    before = drawn(target)
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(
        AirflowException, match=r"SOURCE_UNAVAILABLE.*conn_id: Airflow has no connection 'spark_default'"
    ):
        SnapshotOperator(task_id="t", target=str(target)).execute(context)
    with pytest.raises(AirflowException, match=r"SOURCE_UNAVAILABLE.*conn_id: Airflow has no connection 'other'"):
        ServiceOperator(task_id="s", service=str(target.with_name("service")), conn_id="other").execute(context)
    assert drawn(target) == before


def test_requests_of_the_worker_are_part_of_the_cost(context, source, target, submitted, monkeypatch):
    built(source, target, "plan")
    operator = SnapshotOperator(task_id="t", target=str(target), round_rows=10)
    start = operator._start
    monkeypatch.setattr(operator, "_start", lambda *given: [REQUESTS.count(3), start(*given)])
    before = BuildReader(str(target)).control.cost()
    operator.execute(context)
    after = BuildReader(str(target)).control.cost()
    assert (after.attempts, after.worker_requests) == (before.attempts + 1, before.worker_requests + 3)


def test_spark_submit_gets_our_entry_point_and_zip(context, source, target, submitted):
    built(source, target, "plan")
    operator = SnapshotOperator(task_id="t", target=str(target), round_rows=10, conf={"spark.a": "b"})
    assert operator.execute(context)["epoch"] == 3
    line = submitted()
    entry = next(word for word in line if word.endswith("spark_apps/snapshot.py"))
    before, after = line[: line.index(entry)], line[line.index(entry) + 1 :]
    assert before[before.index("--name") + 1] == "table-backfill-snapshot"
    assert {"spark.a=b", "spark.submit.callSystemExitOnMainExit=true"} <= set(before)
    assert before[before.index("--py-files") + 1].endswith(".zip")
    number, document = drawn(target)[-1]
    assert after[:6] == ["--target", str(target), "--generation", str(number), "--attempt", document["attempt"]]
    assert after[after.index("--round-rows") + 1] == "10"
    assert (operator.spark_ui, context["ti"].pushed) == (
        f"http://spark.test/{number}",
        {"_link_SparkUiLink": f"http://spark.test/{number}"},
    )


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://master:7077"])
def test_secrets_are_inherited_and_in_no_argument(context, source, target, submitted, tmp_path, monkeypatch, master):
    built(source, target, "plan")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", KAFKA)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", LAKE)
    SnapshotOperator(task_id="t", target=str(target), kafka_conn_id="topics", ledger_conn_id="lake").execute(context)
    inherited, arguments = (tmp_path / "inherited").read_text(), json.dumps(submitted())
    for secret, variable in (("canary", VARIABLE), ("nightingale", "AWS_SECRET_ACCESS_KEY")):
        assert secret in inherited and secret not in arguments and variable not in os.environ
    assert lives((tmp_path / "task").read_text())


def test_a_standalone_master_starts_no_python_in_cluster_mode(context, source, target, submitted, monkeypatch):
    built(source, target, "plan")
    connection = {"conn_type": "spark", "host": "spark://master:7077", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    with pytest.raises(AirflowFailException, match="deploy_mode: a standalone master"):
        SnapshotOperator(task_id="t", target=str(target)).execute(context)
    assert len(drawn(target)) == 1


def test_a_lane_that_is_no_number_is_refused_with_its_value(context, source, target):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match=r"lane: must be a whole number.*'first'"):
        SnapshotOperator(task_id="t", target=str(target), lane="first").execute(context)


@pytest.fixture
def kubernetes(monkeypatch):
    connection = {"conn_type": "spark", "host": "k8s://https://kubernetes:443", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", KAFKA)


def test_a_driver_that_inherits_nothing_is_given_no_secrets(context, source, target, submitted, kubernetes):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match=r"secretKeyRef\.AIRFLOW_BACKFILL_KAFKA"):
        SnapshotOperator(task_id="t", target=str(target), kafka_conn_id="topics").execute(context)
    assert len(drawn(target)) == 1


def test_nor_is_the_driver_of_a_service(context, tmp_path, submitted, kubernetes):
    serve = ServiceOperator(task_id="t", service=str(tmp_path / "service"), kafka_conn_id="topics")
    with pytest.raises(AirflowFailException, match="KAFKA_OPTION"):
        serve.execute(context)
    assert not (tmp_path / "submitted.json").exists()


def test_on_yarn_a_driver_finds_the_secrets_in_a_file(context, source, target, submitted, yarn, tmp_path, monkeypatch):
    built(source, target, "plan")
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", KAFKA)
    yarn.states = [("FINISHED", "SUCCEEDED")]
    more = {"kafka_conn_id": "topics", "yarn_track_via_rm_api": True}
    assert SnapshotOperator(task_id="t", target=str(target), **more).execute(context)["epoch"] == 3
    brought = json.loads((tmp_path / "brought").read_text())
    assert (brought["as"], brought["mode"]) == ("airflow-backfill-kafka.json", "0o600")
    assert not os.path.exists(brought["path"]) and "canary" not in json.dumps(submitted())
    assert "canary" not in (tmp_path / "inherited").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / brought["as"]).write_text(brought["text"])
    assert connection()["ssl.keystore.key"] == "canary"


@pytest.mark.parametrize("given", [{}, {"yarn_track_via_rm_api": True}])
def test_on_yarn_a_task_says_what_it_needs_to_rejoin(context, source, target, submitted, monkeypatch, given):
    built(source, target, "plan")
    bare = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(bare))
    with pytest.raises(AirflowFailException, match=r"yarn_resourcemanager_webapp_address.*durable=False"):
        SnapshotOperator(task_id="t", target=str(target), **given).execute(context)
    assert len(drawn(target)) == 1
    assert SnapshotOperator(task_id="t", target=str(target), durable=False).execute(context)["epoch"] == 3


def test_files_of_the_drivers_image(context, source, target, submitted):
    built(source, target, "plan")
    folder = "local:///opt/table-backfill/spark_apps/"
    SnapshotOperator(task_id="t", target=str(target), applications=folder, py_files="").execute(context)
    line = submitted()
    assert "local:///opt/table-backfill/spark_apps/snapshot.py" in line
    assert "--py-files" not in line


def test_a_phase_whose_goal_is_reached_starts_nothing(context, source, target, submitted, tmp_path):
    built(source, target, "plan", "snapshot")
    before = len(drawn(target))
    assert SnapshotOperator(task_id="t", target=str(target)).execute(context)["epoch"] == 3
    assert len(drawn(target)) == before
    assert not (tmp_path / "submitted.json").exists()


def test_a_phase_whose_turn_has_not_come_starts_nothing(context, source, target, submitted):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="NOT_ALLOWED_NOW"):
        VerifyOperator(task_id="t", target=str(target)).execute(context)
    assert len(drawn(target)) == 1


def test_a_cancelled_build_starts_nothing(context, source, target, submitted):
    state = built(source, target, "plan")
    BuildReader(str(target)).control.order(state.plan.build, Command(Verb.CANCEL))
    with pytest.raises(AirflowFailException, match="CANCELLED"):
        SnapshotOperator(task_id="t", target=str(target)).execute(context)
    assert len(drawn(target)) == 1


def test_another_build_in_the_targets_place(context, source, target, submitted):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="NOT_PLANNED"):
        SnapshotOperator(task_id="t", target=str(target), build="another").execute(context)


@pytest.mark.parametrize(("dies", "status"), [("1", "exit status 1;"), ("killed", "exit status -9 (killed")])
def test_an_application_that_dies_is_tried_again(context, source, target, submitted, monkeypatch, dies, status):
    built(source, target, "plan")
    monkeypatch.setenv("DIES", dies)
    with pytest.raises(AirflowException, match=r"(?s)APPLICATION_FAILED.*OutOfMemoryError") as raised:
        SnapshotOperator(task_id="t", target=str(target), conf={"account.key": "canary"}).execute(context)
    assert not isinstance(raised.value, AirflowFailException)
    assert "account.key" not in str(raised.value) + json.dumps(context["task_state_store"])
    found = newest_of(target)
    assert (found.life, found.outcome, found.retry) == (Life.ENDED, "APPLICATION_FAILED", True)
    assert status in found.message and status.rstrip(";") in str(raised.value)
    assert "OutOfMemoryError" not in found.message and "canary" not in found.message


@pytest.mark.parametrize("of", ["SIGTERM", "SIGALRM"])
def test_one_that_airflow_ends_has_ended(context, source, target, submitted, monkeypatch, of):
    """Its task is cleared, or runs into its ``execution_timeout``."""
    built(source, target, "plan")
    monkeypatch.setenv("HANGS", of)
    operator = SnapshotOperator(task_id="t", target=str(target))
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    try:
        with pytest.raises(AirflowException, match=r"APPLICATION_FAILED.*Airflow has ended it"), timeout(60):
            operator.execute(context)
    finally:
        signal.signal(signal.SIGTERM, before)
    found = newest_of(target)
    assert (found.life, found.outcome, found.retry) == (Life.ENDED, "APPLICATION_FAILED", True)


@pytest.mark.parametrize("of", ["SIGKILL", "SIGALRM"])
def test_one_that_dies_behind_the_goal_of_its_task_is_left_to_the_next_one(
    context, source, target, submitted, monkeypatch, of
):
    """The application of a small build is killed in its proof, or the time of its task is over: the plan has
    succeeded.
    """
    monkeypatch.setenv("DIES_BEHIND", of)
    context["ti"].max_tries = 0
    arguments = {"build_name": "orders", "source": str(source), "target": str(target), "key": ["id"]}
    with timeout(60):
        build = PlanOperator(task_id="t", **arguments).execute(context)["build"]
    assert newest_of(target).outcome == "APPLICATION_FAILED"
    assert SnapshotOperator(task_id="t", target=str(target)).execute(new_context())["build"] == build
    assert newest_of(target).outcome == "APPLICATION_FAILED"


def test_one_that_cannot_be_submitted_has_ended_too(context, source, target, submitted):
    built(source, target, "plan")
    missing = r"SPARK_INCOMPLETE\] spark3-submit is not on the PATH of this worker; install Spark"
    with pytest.raises(AirflowFailException, match=missing):
        SnapshotOperator(task_id="t", target=str(target), spark_binary="spark3-submit").execute(context)
    found = newest_of(target)
    assert (found.life, found.outcome, found.lost) == (Life.ENDED, "SPARK_INCOMPLETE", True)


@pytest.mark.parametrize(
    "said",
    ["JAVA_HOME is not set", "/opt/my spark/bin/spark-class: line 71: /nowhere/bin/java: No such file or directory"],
)
def test_a_worker_without_java_is_told_of_in_so_many_words(context, source, target, submitted, monkeypatch, said):
    built(source, target, "plan")
    monkeypatch.setenv("SAYS", said)
    with pytest.raises(
        AirflowFailException, match=f"SPARK_INCOMPLETE.*no Java on this worker \\({said}\\); install Java"
    ):
        SnapshotOperator(task_id="t", target=str(target)).execute(context)
    found = newest_of(target)
    assert (found.outcome, found.lost) == ("SPARK_INCOMPLETE", True) and said in found.message


@pytest.mark.parametrize("mode", ["connection", "setting"])
def test_a_driver_in_the_cluster_may_outlive_its_submission(context, source, target, submitted, monkeypatch, mode):
    built(source, target, "plan")
    monkeypatch.setenv("DIES", "1")
    connection = {
        "conn_type": "spark",
        "host": "yarn",
        "extra": {"deploy-mode": "cluster"} if mode == "connection" else {},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    conf = {"spark.submit.deployMode": "cluster"} if mode == "setting" else {}
    with pytest.raises(AirflowException, match="APPLICATION_FAILED"):
        SnapshotOperator(task_id="t", target=str(target), durable=False, conf=conf).execute(context)
    presumed = newest_of(target)
    assert (presumed.life, presumed.outcome) == (Life.ENDED, "APPLICATION_FAILED")
    me = Attempt(presumed.generation, presumed.attempt)
    BuildReader(str(target)).control.announce(me, {"alive": now_ms() + 30_000, "at": now_ms()})
    lives = newest_of(target)
    assert (lives.life, lives.outcome, lives.message, lives.lost) == (Life.RUNNING, None, None, False)


class Yarn(BaseHTTPRequestHandler):
    """A resource manager with one application."""

    states: ClassVar[list[tuple[str, str]]] = []
    killed: ClassVar[list[str]] = []

    def do_GET(self):
        state, final = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self._answer(404 if state == "GONE" else 200, {"app": {"state": state, "finalStatus": final}})

    def do_PUT(self):
        self.killed.append(self.path)
        self._answer(202, {})

    def _answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def yarn(monkeypatch) -> Iterator[type[Yarn]]:
    class Here(Yarn):
        states: ClassVar = [("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")]
        killed: ClassVar = []

    with answering(Here) as address:
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": address.removeprefix("http://")}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        yield Here


def on_yarn(target):
    return SnapshotOperator(task_id="t", target=str(target), yarn_track_via_rm_api=True)


HANDLE = "application_1700000000000_0001"


def test_yarns_handle_is_kept_under_the_attempts_name(context, source, target, submitted, yarn):
    built(source, target, "plan")
    yarn.states = [("FINISHED", "SUCCEEDED")]
    assert on_yarn(target).execute(context)["epoch"] == 3
    _, document = drawn(target)[-1]
    assert context["task_state_store"][f"spark_job_id/{document['attempt']}"] == HANDLE


def test_an_application_that_outlived_its_worker_is_rejoined(context, source, target, submitted, yarn, tmp_path):
    built(source, target, "plan")
    me = BuildReader(str(target)).control.draw_attempt({"task": "snapshot"}, floor=0)
    context["task_state_store"]["attempt"] = {"generation": me.generation, "name": me.name}
    context["task_state_store"][f"spark_job_id/{me.name}"] = HANDLE
    outcome = {"code": "OK", "result": {}}
    BuildReader(str(target)).control.store_outcome(me, outcome)
    operator = on_yarn(target)
    assert operator.execute(context)["epoch"] == 3
    assert len(drawn(target)) == 2
    assert not (tmp_path / "submitted.json").exists()
    operator.on_kill()
    assert yarn.killed == [f"/ws/v1/cluster/apps/{HANDLE}/state"]


def test_what_an_earlier_try_presumed_of_a_rejoined_one_is_no_outcome(context, source, target, submitted, yarn):
    built(source, target, "plan")
    me = BuildReader(str(target)).control.draw_attempt({"task": "snapshot"}, floor=0)
    context["task_state_store"] |= {"attempt": {"generation": me.generation, "name": me.name}}
    context["task_state_store"][f"spark_job_id/{me.name}"] = HANDLE
    presumed = {**ApplicationFailed("the worker lost touch").to_json(), "presumed": True}
    BuildReader(str(target)).control.store_outcome(me, presumed)
    yarn.states = [("RUNNING", "UNDEFINED"), ("FAILED", "FAILED")]
    with pytest.raises(AirflowException, match=r"APPLICATION_FAILED.*ended without an outcome") as raised:
        on_yarn(target).execute(context)
    assert "lost touch" not in str(raised.value) + newest_of(target).message


@pytest.mark.parametrize("state", ["FAILED", "KILLED", "GONE"])
def test_one_that_ended_or_is_forgotten_is_not(context, source, target, submitted, yarn, state):
    built(source, target, "plan")
    context["task_state_store"]["attempt"] = {"generation": 1, "name": "before"}
    context["task_state_store"]["spark_job_id/before"] = HANDLE
    yarn.states = [(state, "FAILED"), ("FINISHED", "SUCCEEDED")]
    assert on_yarn(target).execute(context)["epoch"] == 3
    assert len(drawn(target)) == 2
