"""Arguments of the wrong kind: each is refused with a code, before anything is drawn, ordered or started."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.limit import Limit
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.application import ApplicationOperator
from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.command import CommandOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.explain import ExplainOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.prove import ProveOperator
from airflow_backfill.operators.recover import RecoverOperator
from airflow_backfill.operators.repair import RepairOperator
from airflow_backfill.operators.served import Served
from airflow_backfill.operators.service import ServiceOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.spark_submit import ARGUMENTS
from airflow_backfill.operators.throttle import ThrottleOperator, by_the_clock
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.sensors.await_epoch import AwaitEpochSensor
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.sensors.gate import GateSensor
from tests.airflow.task import new_context
from tests.airflow.without_spark import WHOLE, built, commit_to

ORDERED = {"why": "because"}
NEEDED: dict[type[BaseOperator], tuple[int, dict[str, Any]]] = {
    PlanOperator: (0, {"build_name": "orders", "key": ["id"]}),
    SnapshotOperator: (1, {}),
    ConsumeLogOperator: (2, {"max_lag": 0, "deferrable": True}),
    CatchUpOperator: (3, {"max_lag": 0}),
    VerifyOperator: (4, {}),
    FinishOperator: (5, {}),
    UpstreamOperator: (6, {}),
    CancelOperator: (1, ORDERED),
    RecoverOperator: (2, ORDERED),
    RepairOperator: (4, ORDERED),
    ProveOperator: (4, {}),
    ExplainOperator: (4, {"key": ["id=1"]}),
    CommandOperator: (1, {"verb": "throttle", "rate": 3}),
    ThrottleOperator: (1, {"rate": 3}),
    AwaitEpochSensor: (2, {"epoch": 100, "deferrable": True}),
    AwaitFinishSensor: (2, {"deferrable": True}),
    GateSensor: (2, {"deferrable": True}),
}
"""How far the build is, in applications, and what else the operator needs. A writer is never held back for good, so the
AdmissionSensor is none of these.
"""
FOR_PEOPLE = {"by", "why"}
"""Of any kind: only people read them."""
WRONG: Mapping[str, tuple[Any, ...]] = {
    "applications": (3, Path("/x"), ["/x"], [], "None"),
    "approval": ("", 3),
    "build": ("", 3),
    "deferrable": ("no", 1, None),
    "epoch": (float("inf"), -1, 1.5, True),
    "full": ("false", 1, None),
    "kafka_conn_id": (3, ""),
    "lane": (1, -1, 1.5, True, None),
    "lanes": (0, -1, 257, "2", 1.5, True, None),
    "on_warning_callback": (3, "notify", ["notify"]),
    "patience": (0, -1, "3", 1.5, None),
    "sample": ("0.5", [], True, None),
    "signal": (3, "now"),
    "verified": (None, 0, "", "false"),
}
"""More values that are no right ones, by argument."""
RIGHT = {(RecoverOperator, "epoch"): (None, "")}


def own(kind: type[BaseOperator]) -> set[str]:
    """The arguments that are neither Airflow's nor those of spark-submit."""
    theirs = {name for base in (BaseOperator, BaseSensorOperator) for name in inspect.signature(base).parameters}
    mine = [base for base in kind.__mro__ if base.__module__.startswith("airflow_backfill")]
    names = {name for base in mine for name in inspect.signature(base).parameters}
    return names - theirs - set(ARGUMENTS) - FOR_PEOPLE - {"self", "kwargs"}


def cases(kind: type[BaseOperator]) -> Iterator[tuple[str, Any]]:
    for name in sorted(own(kind)):
        for value in (object(), *WRONG.get(name, ())):
            if value not in RIGHT.get((kind, name), ()):
                yield name, value


def submitted(launch: Any) -> BaseOperator:
    raise AssertionError(f"an application was started: {launch}")


@pytest.mark.parametrize("kind", NEEDED)
def test_arguments_of_the_wrong_kind(source, target, kind):
    done, needed = NEEDED[kind]
    given = {"target": str(target), **needed}
    given |= {"source": str(source)} if kind is PlanOperator else {}
    given |= {"submit": submitted} if issubclass(kind, ApplicationOperator) else {}
    if done:
        built(source, target, *WHOLE[:done])
        commit_to(source)
    reader = BuildReader(str(target))
    before = reader.control.attempts()
    for name, value in cases(kind):
        context = new_context()
        with pytest.raises((InvalidSpec, AirflowFailException), match="SPEC_INVALID") as found:
            kind(task_id="t", **{**given, name: value}).execute(context)
            pytest.fail(f"{name}={value!r} was taken")
        assert name.removeprefix("build_") in str(found.value) or name in ("target", "source")
        assert (reader.control.attempts(), context["ti"].pushed) == (before, {})
        if kind is not CancelOperator:  # what it has ordered stands, and its application carries it out later
            assert not (done and reader.commands(reader.state().plan.build))


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        (Limit(1.5), "rate"),
        (Limit(True), "rate"),
        (Limit("5"), "rate"),
        (Limit(byte_rate=1e6), "byte_rate"),
        (Limit(5, until=2e12), "until"),
        (1.5, "rate"),
        (-1, "rate"),
    ],
)
def test_what_a_signal_returns(context, source, target, limit, field):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match=rf"SPEC_INVALID\] {field}: must be a whole number"):
        ThrottleOperator(task_id="t", target=str(target), signal=lambda context: limit).execute(context)
    ThrottleOperator(task_id="t", target=str(target), signal=lambda context: Limit(5, why=3)).execute(context)
    reader = BuildReader(str(target))
    assert [command.signed.why for _, command in reader.commands(reader.state().plan.build)] == ["3"]


@pytest.mark.parametrize("rate", [20_000.5, "20000", -1, True])
def test_the_rate_of_a_window_that_has_not_come_yet(rate):
    with pytest.raises(InvalidSpec, match="rate: must be a whole number"):
        by_the_clock((("08:00", "18:00", "Europe/Berlin"), 5), (("20:00", "22:00", "Europe/Berlin"), rate))


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "service": (3, None, Path("/x"), "x"),
        "patience_seconds": ("9", None, -1, float("nan")),
        "poke_interval": ("9", None, 0, 301),
        "deferrable": ("no", None),
    }.items(),
)
def test_a_launcher_that_is_served(tmp_path, name, values):
    for value in values:
        with pytest.raises(InvalidSpec, match=r"location|" + name):
            Served(**{"service": str(tmp_path), name: value})


@pytest.mark.parametrize(
    ("name", "values"), {"service": (3, None, Path("/x"), "x"), "at_once": ("9", None, 0, 1.5)}.items()
)
def test_a_service(context, tmp_path, name, values, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    for value in values:
        with pytest.raises((InvalidSpec, AirflowFailException), match=rf"SPEC_INVALID\] .*(location|{name})"):
            ServiceOperator(task_id="t", **{"service": str(tmp_path), name: value}).execute(context)


def test_an_approval_by_a_task_that_is_not_there(context, source, target):
    built(source, target, "plan", "snapshot")
    with DAG("d", schedule=None):
        task = ConsumeLogOperator(task_id="t", target=str(target), approval="aprove")
    with pytest.raises(AirflowFailException, match=r"approval: the DAG has no such task.*'aprove'"):
        task.execute(context)
