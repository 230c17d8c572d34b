"""A fleet's DAGs: two for each table, whatever is wrong with the others, and fast to make."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import Asset
from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID
from airflow.serialization.serialized_objects import DagSerialization

from airflow_backfill.fleet.dags import fleet_dags
from airflow_backfill.operators.served import Served

FIXED = {"source": "/lake/{table}", "target": "/copies/{table}", "key": ["id"], "follow": "*/15 * * * *"}
TABLES = 300


def made(tables, defaults=None, **dag):
    return fleet_dags({"name": "shop", "defaults": FIXED | (defaults or {}), "tables": tables}, **dag)


def refused(dag):
    return dag.task_dict["refused"].data if dag.has_task("refused") else None


def test_each_table_has_two_dags():
    dags = made({"cart": None, "order": {"follow": None}})
    assert set(dags) == {"shop_cart_build", "shop_cart_follow", "shop_order_build"}
    build, follow = dags["shop_cart_build"], dags["shop_cart_follow"]
    assert build.task_dict["cart.plan"].spec.source == "/lake/cart"
    assert build.task_dict["cart.finish"].outlets == [Asset("shop/cart/handoff")]
    assert follow.task_dict["upstream"].outlets == [Asset("shop/cart")]
    assert follow.task_dict["upstream"].upstream_task_ids == {"await_finish"}
    assert [asset.name for asset in follow.schedule.asset_condition.objects] == ["shop/cart/handoff"]


def test_options_reach_both_dags():
    spark = {"conf": {"spark.sql.shuffle.partitions": "8"}}
    options = {"spark": spark, "ledger_conn_id": "lake", "round_rows": 5, "max_lag": {"minutes": 5}, "lanes": 2}
    dags = made({"cart": options | {"default_args": {"pool": "spark", "retries": 7}}}, default_args={"owner": "ann"})
    snapshot, upstream = (
        dags["shop_cart_build"].task_dict["cart.snapshot"].partial_kwargs,
        dags["shop_cart_follow"].task_dict["upstream"],
    )
    assert dags["shop_cart_build"].task_dict["cart.consume_log"].max_lag == timedelta(minutes=5)
    assert (snapshot["round_rows"], snapshot["conf"]) == (5, spark["conf"])
    assert (upstream.round_rows, upstream.spark["conf"]) == (5, spark["conf"])
    for dag in dags.values():
        for task in dag.tasks:
            assert (task.pool, task.retries, task.owner) == ("spark", 7, "ann")
            assert getattr(task, "ledger_conn_id", "lake") == "lake"


def test_null_removes_a_shared_option():
    shared = {"verify": False, "deferrable": False, "share_applications": False, "lanes": 4, "max_lag": 7}
    shared |= {"gate_timeout": 60, "poke_interval": 5, "approval": True, "on_existing": "fail", "round_rows": 9}
    shared |= {"service": "/lake/service", "default_args": {"pool": "spark"}, "select": ["id"], "kafka_conn_id": "k"}
    removed, plain = made({"cart": dict.fromkeys(shared)}, shared), made({"cart": None})
    assert set(removed) == set(plain)
    for dag_id, dag in plain.items():
        assert DagSerialization.to_dict(removed[dag_id]) == DagSerialization.to_dict(dag)
    assert removed["shop_cart_build"].has_task("cart.verify")


def test_a_service_runs_the_applications():
    dags = made({"cart": {"service": "s3a://lake/service"}})
    for dag in dags.values():
        assert {task.submit for task in dag.tasks if hasattr(task, "submit")} == {Served("s3a://lake/service")}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kye": ["id"]}, "kye"),
        ({"key": []}, "key"),
        ({"key": ["id", "ID"]}, "key"),
        ({"source": "cart"}, "source"),
        ({"lanes": 0}, "lanes"),
        ({"max_lag": "5 minutes"}, "max_lag"),
        ({"max_lag": {"minuets": 5}}, "max_lag"),
        ({"window": [1320, 360, "UTC"]}, "window"),
        ({"follow": "at night"}, "follow"),
        ({"service": "served"}, "service"),
        ({"task_args": {"snapshto": {}}}, "task_args"),
        ({"target": "/copies/order"}, "target"),
        ({"default_args": ["spark"]}, "default_args"),
        (["id"], "options"),
    ],
)
def test_a_wrong_option_is_told_by_its_own_table_alone(wrong, field):
    dags = made({"order": None, "cart": wrong, "price": None})
    data = refused(dags["shop_cart_build"])
    assert (data["table"], data["field"]) == ("cart", field)
    assert "table cart" in dags["shop_cart_build"].doc_md
    assert [name for name, dag in dags.items() if refused(dag) is not None and "cart" not in name] == []
    assert {"shop_order_build", "shop_order_follow", "shop_price_build", "shop_price_follow"} <= set(dags)


def test_what_a_constructor_does_not_take_is_told_too():
    dags = made({"cart": {"approval": {"subjects": "Now?"}}, "order": None})
    assert refused(dags["shop_cart_build"])["table"] == "cart"
    assert refused(dags["shop_order_build"]) is None


def test_a_spec_with_templates_is_left_to_the_plan():
    dags = made({"cart": {"source": "{{ var.value.lake }}/cart"}})
    assert refused(dags["shop_cart_build"]) is None


def test_a_worker_makes_the_dag_of_its_task_only(monkeypatch):
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, "shop_cart_follow")
    assert list(made({"cart": None, "order": None})) == ["shop_cart_follow"]


@pytest.mark.slow
def test_a_table_has_two_dags_of_few_tasks_however_many_tables_there_are():
    dags = made({f"table_{n}": {"lanes": 1 + n % 2} for n in range(TABLES)})
    for dag in dags.values():
        DagSerialization.to_dict(dag)
    assert len(dags) == 2 * TABLES
    assert max(len(dag.tasks) for dag in dags.values()) == 7
