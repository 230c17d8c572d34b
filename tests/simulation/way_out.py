"""What people do about a build that has ended with an error: mostly they help it on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_backfill.core.attempts.settle_plan import settle
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.control import Command, Verb
from tests.simulation.faults import CURABLE
from tests.simulation.invariant import Violation
from tests.simulation.process import Process, plan_of
from tests.simulation.target import Target

if TYPE_CHECKING:
    from tests.simulation.world import World

HAUNTING = ("snapshot", "consume_log", "catch_up", "announce")
"""The tasks that may be about to commit when their target is dropped."""


def put_right(world: World) -> bool:
    """Whether somebody makes the target's rows right, to go on from a named epoch: mostly the right one."""
    world.judge.look()
    epoch, pinned = world.judge.applied, world.pinned
    epoch = pinned if epoch is None else epoch
    if world.judge.foreign_at is None or world.misnamed or not world.judge.can_be_recovered:
        return False
    if epoch is None or pinned is None or not world.happens("recovery"):
        return False
    if not world.happens("left wrong"):
        world.target.put_right(world.expected(epoch))
    wrong = epoch > pinned and world.happens("wrong epoch")
    _recover(world, epoch - 1 if wrong else epoch)
    return True


def rewound(world: World, error: BackfillError) -> bool:
    """Whether somebody restores the target to the version that the error names, to go on from the records there."""
    world.judge.look()
    if world.judge.foreign_at is None or world.pinned is None or not world.happens("rewind"):
        return False
    restored(world, error)
    world.by_hand, world.named = "recover", None
    for process in world.processes:
        process.known = False
    return True


def restored(world: World, error: BackfillError) -> None:
    """Somebody restores the target to the version that an error names; of a proof, to that before the first foreign
    one.
    """
    named = re.search(r"TO VERSION AS OF (\d+)", error.message)
    assert world.judge.foreign_at is not None
    world.target.restore(int(named[1]) if named else world.judge.foreign_at - 1)
    world.led = world.target.head


def leads_on(world: World, error: BackfillError) -> None:
    """A violation if somebody did what the last error said, and nobody has changed the target since."""
    since = [] if world.led is None else world.target.log[world.led + 1 :]
    if world.led is not None and not any(landed.commit.data_change for landed in since):
        raise Violation(f"the target was restored as an error said, and that leads to: {error}")


def undone(world: World) -> bool:
    """Whether somebody undoes what happened to the source's columns, to go on from the epoch of that."""
    recovers = world.judge.can_be_recovered and not (world.topic or world.source.appends)
    if world.fatal != "drop column" or not recovers or not world.happens("recovery"):
        return False
    world.source.restore(world.source.head, world.writers_now)
    world.fatal, world.barred = None, False
    _recover(world, world.source.head)
    return True


def taken_over(world: World, error: BackfillError) -> bool:
    """Whether somebody goes on with a source that was put back from a backup, from the epoch that the error names or
    from the newest one: what the target has of the other history is repaired.
    """
    named = re.search(r"--epoch (\d+)", error.message)
    if world.fatal != "put back" or named is None or world.judge.cancelled or not world.happens("other history"):
        return False
    world.fatal = None
    _recover(world, world.source.head if world.rng.random() < 0.3 else int(named[1]))
    return True


def _recover(world: World, epoch: int) -> None:
    world.by_hand, world.named = "recover", epoch
    world.misnamed = world.target.content != world.expected(epoch)
    for process in world.processes:
        process.known = False


def put_aside(world: World, process: Process) -> None:
    """Somebody lets undecodable records be put aside, once and for all, and clears the task."""
    if process.begun is not None and process.begun.control.dead_letters:
        raise Violation(f"{process.task} ended by undecodable records, although they may be put aside")
    world.command(Command(Verb.DEAD_LETTER))
    _cleared(world)


def calmed(world: World, error: BackfillError) -> None:
    """Mostly somebody slows the writers down, and clears the task."""
    if not world.happens("cure"):
        world.outcome = error.code
        return
    world.storm, world.write_rate, world.calmed = False, 0.0, True
    for writes in ("source optimize", "repeat"):
        world.faults.pop(writes, None)
    _cleared(world)


def removed(world: World) -> bool:
    """Whether somebody removes what ended the build and clears its tasks, or drops the target and plans again."""
    if world.fatal in CURABLE and world.happens("cure"):
        world.source.cure()
        if world.target.rules:
            world.target.rule()
        world.barred = False
        _cleared(world)
    elif not world.topic and world.happens("restart"):
        _restart(world)
    else:
        return False
    world.fatal = None
    return True


def _cleared(world: World) -> None:
    """What has failed meanwhile runs again, too."""
    for process in world.processes:
        process.known = process.known and not process.ended


def _restart(world: World) -> None:
    """A cancel fences whoever still runs; then the target is dropped, and another build begins in its place. In a
    haunted world some had begun to commit, and one to plan.
    """
    ghosts = _ghosts(world) if world.haunted else []
    for process in world.processes:
        if not process.ended and process not in ghosts:
            process.die()
    orphans = world.orphans if world.haunted else []
    for transaction in (*orphans, *(ghost.transaction for ghost in ghosts)):
        if transaction is not None:
            transaction.writer = ""
    world.target = Target(table_id=f"target after {world.target.table_id}")
    world.source.cure()
    world.orphans, world.processes = orphans, ghosts
    world.commands, world.stored_plan, world.pinned = [], None, None
    world.by_hand, world.misnamed, world.foreign, world.stage, world.barred = "", False, 0, 0, False
    world.begin()


def _ghosts(world: World) -> list[Process]:
    """Who works on the build that is about to be dropped, and does not end by that."""
    plan, drafted = world.stored_plan or plan_of(world, world.build), world.draft(world)
    planner = Process(world, f"late planner of {world.build}", "plan", settle(drafted, world.now))
    planner.dropped = drafted
    ghosts = [planner]
    for process in world.processes:
        if plan is not None and not process.ended and process.task.partition("/")[0] in HAUNTING:
            process.dropped = process.dropped or plan
            ghosts.append(process)
    for ghost in ghosts:
        ghost.known = False
    return ghosts


def rewritten(world: World) -> bool:
    """Whether somebody lets the keys be rewritten that a verification found to differ."""
    world.judge.look()
    if world.judge.foreign_at is None and world.judge.unproven and world.happens("repair"):
        world.by_hand = "repair"
    return bool(world.by_hand)
