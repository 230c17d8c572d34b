"""The example DAGs: all of them load, and what they show works."""

from __future__ import annotations

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import BundleDagBag, DagBag
from deltalake import DeltaTable, write_deltalake

from airflow_backfill.core.values.control import Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from environment import quick
from tests.airflow.runs import ROOT
from tests.airflow.without_spark import built

DAGS = ROOT / "dags"


@pytest.fixture
def lake(airflow, tmp_path):
    airflow.environment["TABLE_BACKFILL_DEMO"] = str(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return BundleDagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags-folder")


def test_all_load(bag):
    assert bag.import_errors == {}
    assert {
        "orders_backfill",
        "orders_follow",
        "shop_backfill",
        "table_backfill_service",
        "served_tables",
        "guarded_backfill",
        "events_arrangement",
        "clicks_chain",
        "clicks_landing",
        "clicks_history",
        "clicks_history_follow",
        "parcels",
        "parcels_follow",
    } <= set(bag.dags)
    shop = bag.dags["shop_backfill"]
    assert len(shop.task_group.children) == 20
    guarded = bag.dags["guarded_backfill"].task_dict
    assert guarded["customers.snapshot"].downstream_task_ids == {"customers.consume_log", "customers.approve"}
    assert guarded["customers.gate"].upstream_task_ids == {"customers.consume_log", "customers.approve"}


@pytest.fixture
def spark_conf(airflow, tmp_path):
    """Spark as a cluster would configure it: a small one on this machine, for many small applications."""
    folder = tmp_path / "conf"
    folder.mkdir()
    settings = {
        **quick.confs(),
        **quick.INTERPRETED,
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text)
    airflow.environment["SPARK_CONF_DIR"] = str(folder)


@pytest.mark.soak
@pytest.mark.slow
def test_orders_with_spark(airflow, lake, spark_conf):
    source = lake / "shop" / "orders"

    def orders(start, stop, status):
        ids = pa.array(range(start, stop), pa.int64())
        amounts = pa.array([100.0] * len(ids))
        return pa.table({"order_id": ids, "customer_id": ids, "amount": amounts, "status": [status] * len(ids)})

    write_deltalake(source, orders(0, 100, "paid"), configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(source, orders(100, 150, "draft"), mode="append")
    assert airflow.run(DAGS / "orders.py", "orders_backfill", timeout=600) == ["success"]
    (event,) = airflow.events("orders_ready")
    assert (event["epoch"], event["rows"]) == (1, 100)
    assert airflow.pulled("orders.snapshot", "_link_SparkUiLink")[0].startswith("http://127.0.0.1:40")
    DeltaTable(source).update(updates={"status": "'paid'"}, predicate="order_id = 100")
    DeltaTable(source).delete("order_id < 10")
    assert airflow.run(DAGS / "orders_follow.py", "orders_follow", timeout=300) == ["success"]
    (event,) = airflow.events("orders_eur")
    assert (event["epoch"], event["epochs"], event["rows"]) == (3, 2, 11)


@pytest.mark.soak
def test_an_arrangement_with_spark(airflow, lake, spark_conf):
    source = lake / "shop" / "events"

    def events(start, stop):
        ids = pa.array(range(start, stop), pa.int64())
        return pa.table({"customer_id": pa.array([n // 10 for n in range(start, stop)], pa.int64()), "event_id": ids})

    write_deltalake(source, events(0, 100), configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(source, events(100, 150), mode="append")
    assert airflow.run(DAGS / "arrangement.py", "events_arrangement", timeout=600) == ["success"]
    state = BuildReader(str(lake / "marts" / "events")).state()
    assert (state.plan.spec.strategy, state.applied, state.totals.snapshot_rows) == ("arrangement", 1, 150)
    assert state.certificate is not None and state.certificate.rows == 150


@pytest.mark.soak
def test_a_chain_with_spark(airflow, lake, spark_conf):
    source = lake / "shop" / "clicks"

    def clicks(start, stop):
        return pa.table({"at": pa.array(range(start, stop), pa.int64()), "page": ["/"] * (stop - start)})

    write_deltalake(source, clicks(0, 100))
    write_deltalake(source, clicks(50, 150), mode="append")
    assert airflow.run(DAGS / "chain.py", "clicks_chain", timeout=600) == ["success"]
    assert airflow.run(DAGS / "chain.py", "clicks_consumer", conf={"epoch": 1}) == ["success"]
    state = BuildReader(str(lake / "marts" / "clicks")).state()
    assert (state.plan.spec.strategy, state.applied, state.totals.snapshot_rows) == ("chain", 1, 200)
    assert state.certificate is not None and state.certificate.rows == 200


@pytest.mark.soak
@pytest.mark.parametrize("real", [False, True], ids=["without_spark", "with_spark"])
def test_twenty_tables(airflow, lake, bag, spark_conf, real):
    """Sixty applications take a while with Spark."""
    tables = list(bag.dags["shop_backfill"].task_group.children)
    made = lake / "made"
    for first in range(0, 160, 40):
        ids = pa.array(range(first, first + 40), pa.int64())
        rows = pa.table({f"{table}_id": ids for table in tables})
        write_deltalake(made, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
    (lake / "shop").mkdir()
    for table in tables:
        (lake / "shop" / table).symlink_to(made)
    limit = 3600 if real else 500
    assert airflow.run(DAGS / "shop.py", "shop_backfill", without_spark=not real, timeout=limit) == ["success"]
    finished = [airflow.returned(f"{table}.finish")[0]["epoch"] for table in tables]
    assert finished == [3] * 20


def test_steering_a_build(airflow, source, target):
    built(source, target, "plan")
    conf = {"target": str(target), "verb": "throttle", "rate": 500}
    assert airflow.run(DAGS / "steer.py", "steer_table_backfill", conf=conf) == ["success"]
    reader = BuildReader(str(target))
    ((number, command),) = reader.commands(reader.state().plan.build)
    assert (number, command.verb, command.rate) == (1, Verb.THROTTLE, 500)
    conf["rate"] = 0
    assert airflow.run(DAGS / "steer.py", "steer_table_backfill", conf=conf) == ["success"]
    assert [command.rate for _, command in reader.commands(reader.state().plan.build)] == [500, 0]


def test_an_approval_is_answered_from_airflow(airflow, source, target):
    """The order reaches its task, which says what it lacks."""
    built(source, target, "plan")
    airflow.environment["AIRFLOW_CONN_AIRFLOW_API"] = "http://127.0.0.1:9"
    conf = {"target": str(target), "verb": "approve"}
    assert airflow.run(DAGS / "steer.py", "steer_table_backfill", conf=conf) == ["failed"]
    assert "API server does not answer at http://127.0.0.1:9/table-backfill/builds" in airflow.log


def test_a_row_is_explained_from_airflow(airflow, source, target):
    built(source, target, "plan")
    conf = {"target": str(target), "verb": "explain", "key": ["id=4 2", 'name="x"']}
    assert airflow.run(DAGS / "steer.py", "steer_table_backfill", conf=conf, without_spark=True) == ["success"]
    control = BuildReader(str(target)).control
    found = control.explanation(control.generations(1)[0])
    assert found is not None and found["key"] == {"id": "4 2", "name": '"x"'}


@pytest.mark.parametrize("drop", [False, True])
def test_a_cancel_from_airflow_does_what_the_command_line_does(airflow, source, target, drop):
    built(source, target, "plan")
    conf = {"target": str(target), "verb": "cancel", "drop": drop, "why": "wrong key"}
    run = dict(conf=conf, without_spark=True)
    assert airflow.run(DAGS / "steer.py", "steer_table_backfill", **run) == ["success"]
    reader = BuildReader(str(target))
    _, document = reader.control.attempts()[-1]
    assert (document["task"], document["why"]) == ("cancel", "wrong key") and document["by"]
    assert target.exists() != drop
    if not drop:
        assert reader.state().phase is Phase.CANCELLED
