"""What befalls a simulated world at a step: its tables change, processes suffer, people interfere, and worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.core.values.control import Command, Verb
from tests.simulation.faults import COMMANDS
from tests.simulation.landing import LandingSource
from tests.simulation.process import STAGES

if TYPE_CHECKING:
    from tests.simulation.world import World

STORM = 400
"""Epochs after which a storm is over."""


def strike(world: World) -> None:
    """Whatever this step brings."""
    _tables_change(world)
    _processes_suffer(world)
    _people_interfere(world)
    if world.fatal and not world.fatal_done and world.steps >= world.fatal_at and _may_strike(world):
        _end(world, world.fatal)


def _may_strike(world: World) -> bool:
    """What is followed after the hand-off may be put back then, too."""
    return not world.judge.finished or world.fatal == "put back"


def _tables_change(world: World) -> None:
    storm = world.storm and STAGES[world.stage] in ("consume_log", "catch_up") and world.source.head < STORM
    if world.rng.random() < (0.5 if storm else world.write_rate):
        world.source.write(world.writers_now)
    if isinstance(world.source, LandingSource):
        _topic_changes(world, world.source)
    if world.happens("source optimize"):
        world.source.optimize(world.writers_now)
    if world.happens("target optimize"):
        world.target.optimize()
    if world.happens("target property"):
        world.target.set_property()
    if world.haunted and world.strangers.random() < 0.02:
        # Nobody commits a plan a month late, and no topic's build is dropped.
        world.target.late(world.build, plans=not (world.ages or world.topic))
    if world.ages and world.pinned is not None and world.aging.random() < 0.02:
        world.target.clean_up()
        world.cleaned = world.steps


def _topic_changes(world: World, source: LandingSource) -> None:
    """Its ingestion has a pace of its own."""
    if world.rng.random() < 0.05 and not world.calmed:
        source.land(world.writers_now)
    if world.happens("repeat"):
        source.repeat(world.writers_now)
    if "retention" in world.faults and world.happens("retention"):
        source.expire(range(world.judge.partitions.planned))
    if world.happens("partition") and len(source.partitions) < 9:
        # What was missed and has expired is nowhere any more, and nobody could say what is right; nor of a partition
        # that appears and of which nothing ever lands.
        if world.rng.random() < 0.5 or world.fatal == "expire" or source.noted:
            source.add_partition()
        else:
            source.add_partition_late()


def _processes_suffer(world: World) -> None:
    running = [p for p in world.processes if not p.ended]
    if running and world.happens("crash"):
        world.rng.choice(running).die()
    if running and world.happens("sleep"):
        process = world.rng.choice(running)
        process.known = False
        process.wakes = world.now + world.rng.randrange(0, 60_000)
    if running and world.apart and world.clocks.random() < 0.02:
        world.clocks.choice(running).ahead = world.some_hours()


def _people_interfere(world: World) -> None:
    stage = STAGES[world.stage]
    if world.happens("command"):
        world.command(world.rng.choice(COMMANDS))
    if stage in ("snapshot", "consume_log", "gate", "catch_up") and world.happens("cancel"):
        world.command(Command(Verb.CANCEL))
        world.start("cancel")
    if world.stage > 1 and world.happens("clear"):
        cleared = STAGES[world.rng.randrange(0, world.stage)]
        if cleared != "gate":
            world.start(cleared, twin=True)
    if stage != "gate" and world.happens("twin"):
        world.start(stage, twin=True)
    if world.happens("early"):
        world.start(world.rng.choice(["consume_log", "catch_up", "verify", "finish"]), twin=True)
    if world.pinned is not None and world.happens("peek"):
        world.peek()
    if world.meddled and any(p.recovers for p in world.processes) and world.meddlers.random() < 0.3:
        _meddle(world)


def _meddle(world: World) -> None:
    """Somebody else changes the target, or restores it to whatever version, while it is recovered."""
    world.meddled -= 1
    world.foreign += 1
    if world.meddlers.random() < 0.5:
        world.target.append_foreign()
    else:
        world.target.restore(world.meddlers.randrange(world.target.head))
    if world.named is not None:
        world.misnamed = world.target.content != world.expected(world.named)


def _end(world: World, fault: str) -> None:
    world.fatal_done = True
    match fault:
        case "foreign append":
            world.foreign += 1
            if not (world.haunted and world.target.late(world.build, rows=1)):
                world.target.append_foreign()
        case "quiet append":
            world.foreign += 1
            world.target.append_quietly(strays=world.haunted)
        case "target rule":
            world.target.rule(**{"delta.setTransactionRetentionDuration": "interval 1 hour"})
            world.barred = True
        case "restore":
            world.foreign += 1
            world.target.restore(world.rng.randrange(len(world.target.log)))
        case _:
            _end_of_source(world, fault)


def _end_of_source(world: World, fault: str) -> None:
    match fault:
        case "replace source":
            world.source.replace_table(world.writers_now)
        case "put back":
            world.judge.look()
            world.source.put_back(world.writers_now)
            world.judge.fork()
        case "replace topic":
            assert isinstance(world.source, LandingSource)
            world.source.replace_topic()
        case "expire":
            assert isinstance(world.source, LandingSource)
            world.source.expire(world.source.partitions)
        case "delete":
            world.source.delete(world.writers_now)
            world.barred = True
        case "drop column":
            world.source.drop_column(world.writers_now)
            world.barred = True
        case "clean log":
            world.source.write(world.writers_now)
            world.source.write(world.writers_now)
            world.source.earliest = world.source.head
        case "vacuum":
            world.source.vacuumed_before = world.source.head + (world.key_borders is None)
