"""How source and target are named and described for OpenLineage, and what happens where it is off."""

from __future__ import annotations

import json

import pytest

from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.telling.open_lineage import _column, only_target
from tests.airflow.without_spark import built


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
