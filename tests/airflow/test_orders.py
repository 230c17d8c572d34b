"""What an order about a topic takes from the tasks of its build, which are in another DAG."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.runs import Airflow
from tests.ledger.json_topic import JsonTopic

_DAGS = """
import json
from pathlib import Path
from airflow.sdk import DAG
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.operators.explain import ExplainOperator
from airflow_backfill.operators.snapshot import SnapshotOperator

def refuses(launch):
    given = launch.environment.get(VARIABLE, "{{}}")
    Path({told!r}).write_text(json.dumps(json.loads(given).get("bootstrap.servers")))
    raise RuntimeError("enough")

for name in ("topics", "other"):
    with DAG(name, schedule=None):
        SnapshotOperator(task_id="snapshot", target=f"{folder}/{{name}}/target", kafka_conn_id=name, submit=refuses)

for name, own in (("steer", None), ("steer_other", "other")):
    with DAG(name, schedule=None):
        ExplainOperator(
            task_id="explain", target="{folder}/topics/target", key=["offset=1"], kafka_conn_id=own, submit=refuses
        )
"""


@pytest.fixture
def brokers(airflow: Airflow, tmp_path: Path) -> Callable[[str], str | None]:
    """Runs DAGs, the tasks of which fail once they are to start an application, and returns the last one's brokers."""
    for name in ("topics", "other"):
        extra = {"bootstrap.servers": f"{name}.test:9092"}
        airflow.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "kafka", "extra": extra})
        JsonTopic(tmp_path / name, 6, key=["offset"]).plan()
    told = tmp_path / "told.json"
    file = airflow.write(_DAGS.format(told=str(told), folder=str(tmp_path)))

    def run(*dags: str) -> str | None:
        told.unlink(missing_ok=True)
        assert airflow.run(file, *dags) == ["failed"] * len(dags)
        return json.loads(told.read_text())

    return run


def test_the_connection_to_kafka_is_that_of_the_builds_tasks_and_no_file_chooses_it(
    brokers: Callable[..., str | None], tmp_path: Path
) -> None:
    ours, others = (BuildReader(str(tmp_path / name / "target")) for name in ("topics", "other"))
    assert brokers("steer") is None, "no task of the build has run in Airflow"
    assert brokers("topics", "other", "steer") == "topics.test:9092"
    (_, theirs) = others.control.attempts()[-1]
    assert theirs["dag_id"] == "other"
    for forged in ({"task": "snapshot", "kafka_conn_id": "other"}, theirs):
        ours.draw_attempt(forged)
    assert brokers("steer") == "topics.test:9092"
    assert brokers("steer_other") == "other.test:9092", "its own"
