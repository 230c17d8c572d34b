"""Whole builds on YARN: started by the operators, in both deploy modes, and with tables on HDFS."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.verify import VerifyOperator
from tests.airflow.task import Store, context
from tests.system.applications import Applications, all_phases
from tests.system.hadoop import Hadoop, hadoop

pytestmark = [pytest.mark.spark, pytest.mark.soak]
__all__ = ["context"]

KAFKA = {"bootstrap.servers": "kafka:9092", "ssl.keystore.key": "canary"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with hadoop(tmp_path_factory.mktemp("hadoop")) as one:
        yield one


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for n in range(3):
        rows = pa.table({"id": pa.array(range(n * 100, n * 100 + 100), pa.int64())})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(tmp_path / "source", rows, mode="append", configuration=feed)
    return tmp_path / "source"


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_build_by_the_operators(
    context: dict[str, Any], source: Path, tmp_path: Path, cluster: Hadoop, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """In deploy mode cluster the driver gets Kafka's secrets in a file, and no log has them."""
    target = str(tmp_path / "target")
    extra = {"deploy-mode": mode, "yarn_resourcemanager_webapp_address": f"http://{cluster.resource_manager}"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", json.dumps({"conn_type": "kafka", "extra": KAFKA}))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.folder))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    settings = {
        "conf": cluster.confs(),
        "driver_memory": "600m",
        "yarn_track_via_rm_api": mode == "cluster",
        "kafka_conn_id": "topics",
    }
    context["ti"].stats_tags = {}
    PlanOperator(
        task_id="plan", build_name="orders", source=str(source), target=target, key=["id"], **settings
    ).execute(context)
    context["task_state_store"] = Store()
    snapshot = SnapshotOperator(task_id="snapshot", target=target, **settings)
    lag = {"target": target, "max_lag": 0}
    snapshot.then = (
        ConsumeLogOperator(task_id="consume_log", **lag),
        CatchUpOperator(task_id="catch_up", **lag),
        VerifyOperator(task_id="verify", target=target),
        FinishOperator(task_id="finish", target=target),
    )
    snapshot.execute(context)
    state = BuildReader(target).state()
    assert state.phase is Phase.FINISHED and state.certificate is not None and state.certificate.rows == 300
    handles = [value for name, value in context["task_state_store"].items() if name.startswith("spark_job_id")]
    assert len(handles) == (1 if mode == "cluster" else 0)
    said = [file for file in cluster.folder.parent.rglob("std*") if "canary" in file.read_text(errors="replace")]
    assert said == []


def test_tables_on_hdfs(source: Path, cluster: Hadoop) -> None:
    cluster.put(source, "/lake/source")
    target = f"{cluster.hdfs}/lake/target"
    apps = Applications(target, cluster.confs(), master="yarn", memory="600m")
    apps.environment = {"HADOOP_CONF_DIR": str(cluster.folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    spec = json.dumps({"name": "orders", "source": f"{cluster.hdfs}/lake/source", "target": target, "key": ["id"]})
    for application, words in (("plan", ("--spec", spec)), ("snapshot", all_phases(lag_epochs=0))):
        apps.submit(application, Attempt(len(apps.log) + 1, f"attempt-{application}"), *words)
        assert '"code": "OK"' in apps.log[-1], apps.log[-1][-3000:]
    assert '"phase": "finished"' in apps.log[-1] and '"certificate": {' in apps.log[-1]
