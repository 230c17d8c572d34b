"""What each task of Airflow's runs in the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts import goals as goal
from airflow_backfill.core.attempts import recovery
from airflow_backfill.core.attempts import settle_plan as planning
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.effect import Asks
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.next_phases import work_through
from airflow_backfill.spark.run.phases import parser
from tests.simulation.suspended import Answer, suspended

if TYPE_CHECKING:
    from tests.simulation.world import World


def protocol_of(world: World, name: str, me: Attempt) -> Asks[Any]:
    """The production code behind a task, as an attempt runs it."""
    size = RoundSize(world.round_bytes, world.round_rows)
    tasks: dict[str, Callable[[], goal.Goal]] = {
        "consume_log": lambda: goal.ConsumeLogGoal(size, world.lag, world.patience),
        "catch_up": lambda: goal.CatchUpGoal(size, world.lag, world.patience),
        "verify": lambda: goal.VerifyGoal(sample=world.reread),
        "repair": goal.RepairGoal,
        "finish": goal.FinishGoal,
        "upstream": lambda: goal.UpstreamGoal(size, upto=world.source.head),
        "cancel": goal.CancelGoal,
        "resume": lambda: goal.ResumeGoal(len(world.commands)),
    }
    stage, _, lane = name.partition("/")
    if world.through and stage == "snapshot" and world.lanes == 1:
        return _through(world, me)
    if stage == "plan":
        return _plan(world)
    if stage == "recover":
        return recovery.recover(me, world.named)
    if stage == "snapshot":
        return run(goal.SnapshotGoal(int(lane or "0"), world.lanes, size), me, world.build)
    return run(tasks[stage](), me, world.build)


@dataclass(frozen=True)
class _Shell:
    """What answers the effects of an application."""

    answer: Answer
    spark: None = None
    reader: Any = None


def _through(world: World, me: Attempt) -> Asks[Any]:
    """The application of the snapshot, which goes on up to a closed gate, or to the end."""
    by_epochs = world.lag.age is None
    lag = f"--max-lag-epochs {world.lag.epochs}" if by_epochs else f"--max-lag-seconds {world.lag.age / 1000}"
    size = f"--round-bytes {world.round_bytes} --round-rows {world.round_rows}"
    rounds = f"{size} {lag} --patience {world.patience}"
    then = (f"consume_log {rounds}", f"gate {lag}", f"catch_up {rounds}", "verify", "finish")
    words = ["--target", "/t", "--build", world.build, *size.split()]
    options = parser("snapshot").parse_args([*words, *(word for phase in then for word in ("--then", phase))])

    def work(answer: Answer) -> BuildState:
        def reach(reached: goal.Goal, build: str | None) -> BuildState:
            with world.announcing(me, reached):
                return drive(run(reached, me, build), answer)

        return work_through("snapshot", options, _Shell(answer), reach)

    return suspended(work)


def _plan(world: World) -> Asks[Any]:
    try:
        state = yield from load(world.build)
    except NotPlanned:
        return (yield from planning.settle(world.draft(world), world.now))
    return state.plan
