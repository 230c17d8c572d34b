"""What each task of Airflow's runs in the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts import goals as task
from airflow_backfill.core.attempts import recovery
from airflow_backfill.core.attempts import settle_plan as planning
from airflow_backfill.core.attempts.attempt import Attempt, run
from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.gates.gate import MaxLag
from airflow_backfill.core.state.effect import Effect
from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.round_size import RoundSize
from tests.simulation.draft import draft

if TYPE_CHECKING:
    from tests.simulation.world import World


def protocol_of(world: World, name: str, me: Attempt) -> Generator[Effect, Any, Any]:
    """The production code behind a task, as an attempt runs it."""
    size = RoundSize(world.round_bytes, world.round_rows)
    lag = MaxLag(epochs=world.max_lag)
    tasks: dict[str, Callable[[], task.Task]] = {
        "consume_log": lambda: task.ConsumeLogTask(size, lag, world.patience),
        "catch_up": lambda: task.CatchUpTask(size, lag, world.patience),
        "verify": task.VerifyTask,
        "repair": task.RepairTask,
        "finish": task.FinishTask,
        "upstream": lambda: task.UpstreamTask(size, upto=world.source.head),
        "cancel": task.CancelTask,
        "resume": lambda: task.ResumeTask(len(world.commands)),
    }
    stage, _, lane = name.partition("/")
    if stage == "plan":
        return _plan(world)
    if stage == "recover":
        return recovery.recover(me, world.named)
    if stage == "snapshot":
        return run(task.SnapshotTask(int(lane or "0"), world.lanes, size), me, world.build)
    return run(tasks[stage](), me, world.build)


def _plan(world: World) -> Generator[Effect, Any, Any]:
    try:
        state = yield from load(world.build)
    except NotPlanned:
        return (yield from planning.settle(draft(world), world.now))
    return state.plan
