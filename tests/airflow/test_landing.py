"""The example of a shared ingestion as a DAG, and that its password stays where it belongs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from deltalake import DeltaTable
from pyarrow.dataset import dataset

from demo.kafka.topic import Record, Topic
from environment import quick
from tests.airflow.runs import ROOT
from tests.kafka.conftest import LOGIN, broker
from tests.kafka.leaks import written

__all__ = ["broker"]

DAGS = ROOT / "dags"
TOPIC = "clicks"


@pytest.fixture
def lake(airflow, broker, tmp_path):
    """A place for the table, Spark with all that it can tell, and a Kafka that wants a password."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "events").mkdir()
    settings = {
        **quick.confs(),
        **quick.INTERPRETED,
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.sql.warehouse.dir": f"{tmp_path}/warehouse",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    airflow.environment |= {"SPARK_CONF_DIR": f"{tmp_path}/conf", "TABLE_BACKFILL_DEMO": str(tmp_path)}
    return tmp_path


def connect(airflow, broker, password: str) -> None:
    extra = {
        "bootstrap.servers": broker.sasl_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": LOGIN.user,
        "sasl.password": password,
    }
    airflow.environment["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})


def command_lines(word: str) -> set[str]:
    """Of all processes whose command line has the word."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_text(errors="replace").replace("\0", " ")
        except OSError:  # it has ended
            continue
        if word in line:
            found.add(line)
    return found


@pytest.mark.slow
def test_a_topic_lands_and_its_password_is_nowhere(airflow, broker, lake):
    topic = Topic(broker.servers, TOPIC)
    topic.create()
    connect(airflow, broker, LOGIN.password)
    assert airflow.run(DAGS / "landing.py", "clicks_landing") == ["success"]
    topic.send(Record(b"x") for _ in range(3))
    lines: set[str] = set()
    table = lake / "landing" / TOPIC
    before = DeltaTable(table).version()

    def landed() -> bool:
        lines.update(command_lines(str(table)))
        return DeltaTable(table).version() > before

    with airflow.running(DAGS / "landing.py", "clicks_landing"):
        airflow.until(landed)
    assert airflow.states == ["success"]
    assert DeltaTable(table).to_pyarrow_table()["offset"].to_pylist() == [0, 1, 2]
    assert any("java" in line for line in lines) and any("python" in line for line in lines)
    told = "\n".join(lines) + airflow.everything() + written(airflow.home, lake / "events", lake / "landing")
    assert "SparkListenerSQLExecutionStart" in told and "sasl.jaas.config = [hidden]" in told
    assert LOGIN.password not in told


@pytest.mark.soak
@pytest.mark.slow
def test_a_wrong_password_fails_the_task_and_is_nowhere_either(airflow, broker, lake):
    connect(airflow, broker, "the wrong password")
    assert airflow.run(DAGS / "landing.py", "clicks_landing") == ["failed"]
    told = airflow.log + airflow.everything() + written(airflow.home, lake / "events")
    assert "Authentication failed" in told
    assert "the wrong password" not in told


@pytest.mark.soak
def test_history_and_what_lands_become_one_table(airflow, broker, lake):
    """Two processes read the topic, and the password of neither is anywhere."""
    topic = Topic(broker.servers, TOPIC)
    with suppress(KafkaException):  # it is there if another test has made it
        topic.delete()
    topic.create(partitions=2)
    connect(airflow, broker, LOGIN.password)
    lake.joinpath("landing").mkdir()

    def send(*pages: str) -> None:
        topic.send(Record(page.encode(), partition=n % 2) for n, page in enumerate(pages))

    def rows() -> list[tuple[int, int, str]]:
        # The table may have deletion vectors, which deltalake does not read; none is there: rows are only added.
        files = dataset(DeltaTable(lake / "marts" / "clicks_history").file_uris(), format="parquet")
        return sorted(tuple(row.values()) for row in files.to_table(["partition", "offset", "page"]).to_pylist())

    def everything() -> list[tuple[int, int, str]]:
        records = [record for partition in (0, 1) for record in topic.records(partition)]
        return sorted((one.partition(), one.offset(), one.value().decode()) for one in records)

    send(*"abcdefg")
    assert airflow.run(DAGS / "landing.py", "clicks_landing") == ["success"]
    send(*"hij")
    assert airflow.run(DAGS / "landing.py", "clicks_landing") == ["success"]
    lines: set[str] = set()

    def reading() -> bool:
        lines.update(command_lines("clicks_history"))
        return any("java" in line and "snapshot.py" in line for line in lines)

    with airflow.running(DAGS / "history.py", "clicks_history", timeout=600):
        airflow.until(reading, timeout=300)
    assert airflow.states == ["success"]
    assert rows() == everything() and len(rows()) == 10
    send("k", "l")
    assert airflow.run(DAGS / "landing.py", "clicks_landing") == ["success"]
    assert airflow.run(DAGS / "history.py", "clicks_history_follow") == ["success"]
    assert rows() == everything() and len(rows()) == 12
    told = "\n".join(lines) + airflow.everything() + written(airflow.home, lake)
    assert "table-backfill" in told and LOGIN.password not in told
