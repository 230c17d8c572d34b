"""The demo's DAG in a real Airflow with a real scheduler: triggered, held back in the triggerer, released, done."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.reader import BuildReader
from demo.standalone import standalone

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

DAG = "tpch_orders"


def test_the_demos_dag_finishes_and_a_gate_waits_in_the_triggerer(tmp_path: Path) -> None:
    with standalone(tmp_path, SCALE="0.01", RATE="0.2") as airflow:
        airflow.wait("DAGs", lambda: {DAG, f"{DAG}_follow", "shop_backfill"} <= airflow.dags())
        run = airflow.trigger(DAG)
        orders = BuildReader(str(tmp_path / "demo" / "targets" / "orders"))
        airflow.wait("plan", lambda: _planned(orders))
        build = orders.state().plan.build
        orders.control.order(build, Command(Verb.HOLD))

        # Held, the target is kept fresh from the triggerer. Whoever does not want that takes the task out of the way,
        # and the gate itself waits there.
        airflow.wait("deferred consume_log", lambda: airflow.states(DAG, run)["orders.consume_log"] == "deferred")
        airflow.mark_success(DAG, run, "orders.consume_log")
        airflow.wait("deferred gate", lambda: airflow.states(DAG, run)["orders.gate"] == "deferred")
        assert airflow.stored(DAG, run, "orders.gate", "waiting") == ["the build is on hold"]
        orders.control.order(build, Command(Verb.RELEASE))

        airflow.wait(f"end of {DAG}", lambda: airflow.state(DAG, run) in ("success", "failed"))
        assert set(airflow.states(DAG, run).values()) == {"success"}
        assert airflow.stored(DAG, run, "orders.snapshot", "progress")["phase"] in ("snapshot", "consume_log")
        links = airflow.link(DAG, run, "orders.snapshot")
        assert links and all(link is None or link.startswith(("http://", "file://")) for link in links.values())
        state = orders.state()
        assert state.certificate is not None and state.certificate.epoch == state.handoff


def _planned(reader: BuildReader) -> bool:
    try:
        reader.state()
    except BackfillError:
        return False
    return True
