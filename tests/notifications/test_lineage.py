"""How source and target are named and described for OpenLineage, and what happens where it is off."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent
from openlineage.client.serde import Serde

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.notifications.open_lineage import _column, only_target
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.operators.verify import VerifyOperator
from tests.airflow.without_spark import built, commit_to
from tests.ledger.json_topic import JsonTopic

KAFKA = json.dumps(
    {
        "conn_type": "kafka",
        "extra": {
            "bootstrap.servers": "SASL_SSL://one.test:9093, two.test:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "canary",
        },
    }
)


@pytest.fixture
def on(monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps({"type": "console"}))


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("/lake/orders", "file", "/lake/orders"),
        ("s3a://lake/shop/orders/", "s3://lake", "shop/orders"),
        ("gs://lake/orders", "gs://lake", "orders"),
        ("abfss://raw@acme.dfs.core.windows.net/orders", "abfss://raw@acme.dfs.core.windows.net", "orders"),
        ("hdfs://name:8020/lake/orders", "hdfs://name:8020", "lake/orders"),
    ],
)
def test_a_table_is_named_as_other_tools_name_it(place, namespace, name):
    (target,) = only_target(place).outputs
    assert (target.namespace, target.name) == (namespace, name)


def test_nested_columns_are_named_by_their_kind():
    kind = {"type": "array", "elementType": "string", "containsNull": True}
    assert (_column({"name": "tags", "type": kind}).type, _column({"name": "id", "type": "long"}).type) == (
        "array",
        "long",
    )


def test_a_task_that_has_succeeded_knows_its_source(on, context, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify")
    task = SnapshotOperator(task_id="t", target=str(target))
    task.post_execute(context)
    told = task.get_openlineage_facets_on_complete(None)
    assert [table.name for table in told.inputs] == [str(source)]
    assert told.run_facets["tableBackfill"].certificate["rows"] == 7
    assert told.run_facets["tableBackfill"].handoff == 3


TASKS = [
    (PlanOperator, {"source": "/s", "key": ["id"], "build_name": "orders"}, None),
    (SnapshotOperator, {}, "snapshot_rows"),
    (ConsumeLogOperator, {}, "log_rows"),
    (CatchUpOperator, {}, "log_rows"),
    (VerifyOperator, {}, None),
    (FinishOperator, {}, None),
    (UpstreamOperator, {}, "upstream_rows"),
]


@pytest.mark.parametrize(("operator", "more", "rows"), TASKS)
def test_each_phase_tells_what_it_has_written(on, context, source, target, operator, more, rows):
    built(source, target, "plan", "snapshot", **{"round-rows": 1})
    for application in ("consume_log", "catch_up", "verify", "finish", "upstream", "upstream", "upstream"):
        commit_to(source)
        totals = built(source, target, application).totals
    assert len({totals.snapshot_rows, totals.log_rows, totals.upstream_rows}) == 3
    task = operator(task_id="t", target=str(target), **more)
    task.post_execute(context)
    told = task.get_openlineage_facets_on_complete(None)
    (read,), (written,) = told.inputs, told.outputs
    assert (read.name, written.name) == (str(source), str(target))
    assert read.facets["version"].datasetVersion == "10"
    assert [column.name for column in written.facets["schema"].fields] == ["id"]
    statistics = (written.outputFacets or {}).get("outputStatistics")
    assert (statistics and statistics.rowCount) == (rows and getattr(totals, rows))
    assert told.run_facets["tableBackfill"].phase == "upstream"


def test_a_topic_is_a_source_beside_its_landing_table(on, context, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", KAFKA)
    build = JsonTopic(tmp_path, 6, 4)
    build.plan()
    build.land(0, 0, 3)
    build.run(SnapshotGoal(0, 1, RoundSize(rows=4)))
    task = SnapshotOperator(task_id="t", target=build.location, kafka_conn_id="topics")
    task.post_execute(context)
    told = task.get_openlineage_facets_on_complete(None)
    topic, landing = told.inputs
    assert (topic.namespace, topic.name) == ("kafka://one.test:9093", "clicks")
    assert (landing.namespace, landing.name) == ("file", str(tmp_path / "source"))
    assert [(column.name, column.type) for column in topic.facets["schema"].fields] == [
        ("partition", "int"),
        ("offset", "bigint"),
        ("headers", "array<struct<key:string,value:binary>>"),
        ("page", "string"),
        ("paid", "decimal(10,2)"),
    ]
    offsets = topic.inputFacets["tableBackfillOffsets"].partitions
    assert offsets == [{"partition": 0, "from": 0, "to": 2}, {"partition": 1, "from": 0, "to": 3}]
    assert topic.inputFacets["inputStatistics"].rowCount == 7
    event = RunEvent(
        eventTime="2026-01-01T00:00:00Z", run=Run(str(UUID(int=1))), job=Job("n", "j"), inputs=told.inputs,
    )  # fmt: skip
    assert '"tableBackfillOffsets"' in Serde.to_json(event)
    assert "canary" not in Serde.to_json(event)
    unnamed = SnapshotOperator(task_id="u", target=build.location)
    unnamed.post_execute(context)
    assert [source.name for source in unnamed.get_openlineage_facets_on_complete(None).inputs] == [landing.name]


def test_nothing_is_read_where_lineage_is_off(context, source, target):
    built(source, target, "plan")
    task = SnapshotOperator(task_id="t", target=str(target))
    task.post_execute(context)
    assert task.lineage is None


def test_a_build_that_cannot_be_read_costs_the_lineage_only(on, context, target, capsys):
    task = SnapshotOperator(task_id="t", target=str(target))
    task.post_execute(context)
    assert "no lineage could be told" in capsys.readouterr().out
    assert [table.name for table in task.get_openlineage_facets_on_complete(None).outputs] == [str(target)]
