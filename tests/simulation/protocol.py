"""What each task of Airflow's runs in the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts import goals as goal
from airflow_backfill.core.attempts import recovery
from airflow_backfill.core.attempts import settle_plan as planning
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.state.effect import Asks
from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.round_size import RoundSize

if TYPE_CHECKING:
    from tests.simulation.world import World


def protocol_of(world: World, name: str, me: Attempt) -> Asks[Any]:
    """The production code behind a task, as an attempt runs it."""
    size = RoundSize(world.round_bytes, world.round_rows)
    tasks: dict[str, Callable[[], goal.Goal]] = {
        "consume_log": lambda: goal.ConsumeLogGoal(size, world.lag, world.patience),
        "catch_up": lambda: goal.CatchUpGoal(size, world.lag, world.patience),
        "verify": goal.VerifyGoal,
        "repair": goal.RepairGoal,
        "finish": goal.FinishGoal,
        "upstream": lambda: goal.UpstreamGoal(size, upto=world.source.head),
        "cancel": goal.CancelGoal,
        "resume": lambda: goal.ResumeGoal(len(world.commands)),
    }
    stage, _, lane = name.partition("/")
    if stage == "plan":
        return _plan(world)
    if stage == "recover":
        return recovery.recover(me, world.named)
    if stage == "snapshot":
        return run(goal.SnapshotGoal(int(lane or "0"), world.lanes, size), me, world.build)
    return run(tasks[stage](), me, world.build)


def _plan(world: World) -> Asks[Any]:
    try:
        state = yield from load(world.build)
    except NotPlanned:
        return (yield from planning.settle(world.draft(world), world.now))
    return state.plan
