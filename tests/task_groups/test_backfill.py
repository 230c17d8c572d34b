"""The shape of the group, whatever is switched on."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace

import pytest
from airflow.models.asset import AssetModel
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, TaskGroup
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.definitions.assets import SerializedAsset
from airflow.serialization.serialized_objects import DagSerialization

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from tests.airflow.task import context

__all__ = ["context"]

CHAIN = ["plan", "snapshot", "consume_log", "gate", "catch_up", "verify", "finish"]


def group(group_id="orders", **options):
    fixed = {"source": "/lake/orders", "target": "/lake/copy", "key": ["id"]}
    return BackfillTaskGroup(group_id, **fixed | options)


def edges(dag):
    return {
        (task.label, next_)
        for task in dag.tasks
        for next_ in (dag.task_dict[n].label for n in task.downstream_task_ids)
    }


def test_the_chain():
    with DAG("d", schedule=None) as dag:
        made = group()
    assert edges(dag) == set(pairwise(CHAIN))
    assert (made.plan.task_id, made.finish.task_id) == ("orders.plan", "orders.finish")
    assert made.finish.outlets == [made.handoff_asset]
    assert made.handoff_asset == Asset("table-backfill/d/orders/handoff")


@pytest.mark.parametrize(("dag_id", "group_id"), [("commandes_été", "orders"), ("d", "订单")])
def test_ids_may_be_in_any_language(dag_id, group_id):
    """One asset that Airflow cannot store would end its DAG processor, and with it all other DAGs."""
    with DAG(dag_id, schedule=None):
        made = group(group_id, name="orders").handoff_asset
    assert AssetModel.from_serialized(SerializedAsset(made.name, made.uri, made.group, {}, [])).uri == made.uri
    with DAG("other", schedule=None):
        assert group(group_id).handoff_asset != made


def test_without_a_proof():
    with DAG("d", schedule=None) as dag:
        made = group(verify=False)
    assert ("catch_up", "finish") in edges(dag)
    assert made.verify is None
    assert made.finish.verified is False


@pytest.mark.parametrize("verify", [None, "", "{{ params.verify }}"])
def test_a_proof_is_left_out_only_if_that_is_asked_for(verify):
    """A blank option in YAML is None."""
    with pytest.raises(InvalidSpec, match="verify: must be True or False"), DAG("d", schedule=None):
        group(verify=verify)


@pytest.mark.parametrize("approval", [None, "", "{{ params.ask }}", ["ann"]])
def test_an_approval_is_asked_for_or_left_out_only_if_that_is_said(approval):
    with pytest.raises(InvalidSpec, match="approval: must be True, False"), DAG("d", schedule=None):
        group(approval=approval)


def test_an_approval_without_arguments_of_its_own_is_asked_for():
    with DAG("d", schedule=None) as dag:
        made = group(approval={})
    assert ("approve", "gate") in edges(dag)
    assert made.consume_log.approval == "orders.approve"


def test_the_plan_says_its_result_where_other_tasks_do_not():
    with DAG("d", schedule=None, default_args={"do_xcom_push": False}):
        made = group()
    assert (made.plan.do_xcom_push, made.finish.do_xcom_push) == (True, False)


def test_with_an_approval():
    with DAG("d", schedule=None) as dag:
        made = group(approval={"subject": "Now?", "assigned_users": {"id": "1", "name": "ann"}})
    assert {("snapshot", "approve"), ("approve", "gate"), ("consume_log", "gate")} <= edges(dag)
    approve = dag.task_dict["orders.approve"]
    assert (approve.subject, approve.fail_on_reject) == ("Now?", True)
    assert made.consume_log.approval == "orders.approve"


@pytest.mark.parametrize(("rows", "said"), [(1_234_567, "1,234,567 rows"), (None, "all records")])
def test_an_approval_asks_with_a_figure(rows, said):
    with DAG("d", schedule=None) as dag:
        group(approval=True)
    plan = {"target": "/marts/orders", "epoch": 7, "rows": rows}
    ti = SimpleNamespace(
        map_index=4, xcom_pull=lambda task_ids, map_indexes: {("orders.plan", 4): plan}[task_ids, map_indexes]
    )
    body = dag.get_template_env().from_string(dag.task_dict["orders.approve"].body).render(ti=ti)
    assert body == f"The snapshot is read: {said}, as of epoch 7. /marts/orders stays fresh until you decide."


def test_lanes_are_mapped_over_a_literal_list():
    with DAG("d", schedule=None) as dag:
        group(lanes=3)
    snapshot = dag.task_dict["orders.snapshot"]
    assert snapshot.is_mapped
    assert snapshot.expand_input.value == {"lane": [0, 1, 2]}
    assert edges(dag) == set(pairwise(CHAIN))


def test_a_skip_of_one_task_skips_all_after_it():
    """In a DAG with ``fail_fast`` Airflow allows no other rule, and in a mapped group others look at all tables."""
    with DAG("d", schedule=None, fail_fast=True) as dag:
        group(approval=True)
    assert {task.trigger_rule for task in dag.tasks} == {"all_success"}
    with DAG("e", schedule=None, default_args={"trigger_rule": "none_failed"}) as dag:
        group(approval=True, lanes=2, task_args={"finish": {"trigger_rule": "all_done"}})
    other = {task.task_id for task in dag.tasks if task.trigger_rule != "all_success"}
    assert other == {"orders.plan", "orders.finish"}


def test_options_reach_their_tasks():
    with DAG("d", schedule=None) as dag:
        made = group(
            max_lag=timedelta(minutes=2),
            window=("22:00", "06:00", "UTC"),
            round_rows=5,
            spark={"conn_id": "big", "conf": {"a": "b"}},
            task_args={"snapshot": {"driver_memory": "8g", "round_rows": 7}, "gate": {"timeout": 3}},
        )
    assert (made.consume_log.lag.age, made.gate.max_lag.age, made.catch_up.lag.age) == (120_000,) * 3
    assert made.consume_log.window == made.gate.window
    assert (made.snapshot.round_rows, made.catch_up.round_rows) == (7, 5)
    assert made.gate.timeout == 3
    spark = {
        task.label: task._spark_submit(task._launch(Attempt(1, "me"))) for task in dag.tasks if task is not made.gate
    }
    assert (spark["snapshot"]._driver_memory, spark["catch_up"]._driver_memory) == ("8g", None)
    assert {(one._conn_id, one.conf["a"]) for one in spark.values()} == {("big", "b")}


def test_of_the_plan_later_tasks_take_target_and_build():
    with DAG("d", schedule=None):
        made = group(target="/lake/{{ ds }}")
    assert made.plan.target == "/lake/{{ ds }}"
    pulled = "(ti.xcom_pull(task_ids='orders.plan', map_indexes=ti.map_index) or {})"
    assert made.gate.target == f"{{{{ {pulled}.get('target', '') }}}}"
    assert made.finish.build == f"{{{{ {pulled}.get('build', '') }}}}"


@pytest.mark.parametrize("found", [None, {}])
def test_without_the_plans_result_a_task_says_what_to_clear(context, found):
    """The plan was marked by hand, or somebody has deleted what it returned."""
    with DAG("d", schedule=None) as dag:
        made = group(approval=True)
    ti = SimpleNamespace(map_index=-1, xcom_pull=lambda task_ids, map_indexes: found)
    render = dag.get_template_env().from_string
    assert [render(text).render(ti=ti) for text in (made.gate.target, made.gate.build)] == ["", ""]
    assert "all records" in render(dag.task_dict["orders.approve"].body).render(ti=ti)
    for kind in (VerifyOperator, AwaitFinishSensor):
        with pytest.raises(AirflowFailException, match=r"SPEC_INVALID.*clear the plan"):
            kind(task_id="t", target="").execute(context)


def test_lanes_take_what_the_plan_says_which_is_no_lane():
    with DAG("d", schedule=None) as dag:
        group(lanes=3)
    pulled = "{{ (ti.xcom_pull(task_ids='orders.plan', map_indexes=-1) or {}).get('target', '') }}"
    assert dag.task_dict["orders.snapshot"].partial_kwargs["target"] == pulled


@pytest.mark.parametrize(("default", "retries"), [({}, 3), ({"retries": 0}, 0), ({"retries": 7}, 7)])
def test_tasks_are_retried_unless_the_dag_says_otherwise(default, retries):
    with DAG("d", schedule=None, default_args=default) as dag:
        group(lanes=2)
    assert {task.retries for task in dag.tasks} == {retries}


def test_many_groups_and_groups_in_groups():
    with DAG("d", schedule=None) as dag:
        with TaskGroup("shop"):
            inner = group()
        for n in range(20):
            group(f"t{n}", target=f"/lake/copy{n}")
    assert inner.plan.task_id == "shop.orders.plan"
    assert inner.plan.build_name == "shop.orders"
    assert "task_ids='shop.orders.plan'" in inner.gate.target
    assert len(dag.tasks) == 21 * 7


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "handoff_asset": ("orders", ["orders"], AssetAlias("orders")),
        "share_applications": ("no", None, 0),
        "deferrable": ("{{ params.deferrable }}", None),
        "submit": ("spark", 3),
        "on_warning_callback": ("notify", ["notify"]),
        "spark": ("conf", 3, ["conf"]),
        "task_args": (3, ["plan"]),
        "gate_timeout": ("7 days", None),
    }.items(),
)
def test_arguments_of_the_wrong_kind(name, values):
    for value in values:
        with pytest.raises(InvalidSpec, match=f"{name}: must be "), DAG("d", schedule=None):
            group(**{name: value})


def test_arguments_of_a_task_are_a_mapping():
    for lanes in (1, 2):
        with pytest.raises(InvalidSpec, match=r"task_args.snapshot: must be a mapping"), DAG("d", schedule=None):
            group(lanes=lanes, task_args={"snapshot": ["driver_memory"]})


@pytest.mark.parametrize("options", [{"lanes": 0}, {"lanes": 2.0}, {"lanes": True}, {"lanes": 257}])
def test_lanes_that_are_none(options):
    with pytest.raises(InvalidSpec, match="lanes"), DAG("d", schedule=None):
        group(**options)


@pytest.mark.parametrize("options", [{"task_args": {"snapshots": {}}}, {"max_lag": -1}, {"window": ("22:00", "06:00")}])
def test_mistakes_are_found_when_the_dag_is_built(options):
    with pytest.raises(InvalidSpec), DAG("d", schedule=None):
        group(**options)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="bukets"), DAG("d", schedule=None):
        group(bukets=8)


def test_a_dag_that_waits_for_its_own_hand_off_is_refused():
    ready = Asset("ready")
    with pytest.raises(ValueError, match="would start itself"), DAG("d", schedule=[ready]):
        group(handoff_asset=ready)


def test_it_survives_serialization_and_subsets():
    with DAG("d", schedule=None) as dag:
        group(lanes=2, approval=True)
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(stored.task_dict) == set(dag.task_dict)
    assert set(stored.task_group.get_task_group_dict()) == {None, "orders"}
    subset = stored.partial_subset(["orders.gate"], include_upstream=True, include_downstream=False)
    assert "orders.finish" not in subset.task_dict
    assert {"Spark UI", "Target"} == set(stored.task_dict["orders.verify"].extra_links)


REST = ["catch_up", "verify", "finish"]
LATER = ["consume_log", "gate", *REST]
LARGER = {"task_args": {"verify": {"driver_memory": "8g"}}}


@pytest.mark.parametrize(
    ("options", "plan", "snapshot", "consume_log", "catch_up"),
    [
        ({"share_applications": False}, [], [], [], []),
        ({}, ["snapshot", *LATER], LATER, ["gate", *REST], REST[1:]),
        (
            {"verify": False},
            ["snapshot", "consume_log", "gate", "catch_up", "finish"],
            ["consume_log", "gate", "catch_up", "finish"],
            ["gate", "catch_up", "finish"],
            ["finish"],
        ),
        ({"lanes": 2}, [], [], ["gate", *REST], REST[1:]),
        ({"approval": True}, ["snapshot", "consume_log"], ["consume_log"], [], REST[1:]),
        (
            {"task_args": {"verify": {"driver_memory": "8g"}}},
            ["snapshot", "consume_log", "gate", "catch_up"],
            ["consume_log", "gate", "catch_up"],
            ["gate", "catch_up"],
            [],
        ),
        ({"task_args": {"snapshot": {"conf": {"a": "b"}}}}, [], [], ["gate", *REST], REST[1:]),
        ({"task_args": {"plan": {"conf": {"a": "b"}}}}, [], LATER, ["gate", *REST], REST[1:]),
        ({"task_args": {"catch_up": {"pool": "p"}}}, ["snapshot", *LATER], LATER, ["gate", *REST], REST[1:]),
    ],
    ids=["not", "all", "unverified", "lanes", "approval", "larger proof", "other snapshot", "other plan", "pool"],
)
def test_whose_application_goes_on_with_whose_phase(options, plan, snapshot, consume_log, catch_up):
    with DAG("d", schedule=None):
        made = group(**options)
    assert phases_after(made.plan) == plan
    assert phases_after(made.snapshot) == snapshot
    assert phases_after(made.consume_log) == consume_log
    assert phases_after(made.catch_up) == catch_up
    assert ("--unverified" in " ".join(made.catch_up.arguments())) is (options.get("verify") is False)


def test_an_application_does_not_pass_a_task_of_the_user():
    with DAG("d", schedule=None):
        made = group()
        prepare = EmptyOperator(task_id="prepare")
        prepare >> EmptyOperator(task_id="list") >> made.plan
        prepare >> made.snapshot  # it has succeeded before the plan begins
        assert phases_after(made.plan) == ["snapshot", *LATER]
        look = EmptyOperator(task_id="look")
        made.plan >> look >> made.snapshot
        EmptyOperator(task_id="office_hours") >> made.verify
    assert phases_after(made.plan) == []
    assert phases_after(made.snapshot) == ["consume_log", "gate", "catch_up"]


def phases_after(task):
    words = [] if getattr(task, "is_mapped", False) else task.arguments()
    return [words[n + 1].split()[0] for n, word in enumerate(words) if word == "--then"]
