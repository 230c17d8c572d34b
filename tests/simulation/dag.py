"""What Airflow does in a simulated world: it starts tasks, tries them again, and passes the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.gates import gate
from airflow_backfill.core.kafka.offsets import MAX, Offsets
from airflow_backfill.core.state.load import load
from airflow_backfill.core.strategies.chain import unannounced
from airflow_backfill.core.values.phase import Phase
from tests.simulation import way_out
from tests.simulation.faults import CALM, ENDS
from tests.simulation.invariant import Violation
from tests.simulation.landing import LandingSource
from tests.simulation.process import STAGES, Process

if TYPE_CHECKING:
    from tests.simulation.world import World

_STAGE_IN = {
    Phase.SNAPSHOT: "snapshot",
    Phase.CONSUME_LOG: "consume_log",
    Phase.CATCH_UP: "catch_up",
    Phase.FINISHED: "upstream",
    Phase.UPSTREAM: "upstream",
    Phase.CANCELLED: "snapshot",
}
"""The task that is cleared after a rewind."""
RUNS = 4
"""How often an ordered build is followed to the end of what landed."""


def schedule(world: World) -> None:
    stage = STAGES[world.stage]
    if world.by_hand:
        _run_by_hand(world)
        return
    if stage == "gate":
        _gate(world)
        return
    known = [p for p in world.processes if p.known and p.task.split("/")[0] == stage]
    lanes = [f"snapshot/{n}" for n in range(world.lanes)] if stage == "snapshot" else [stage]
    if stage == "snapshot" and world.steps < CALM and world.happens("lanes") and world.happens("twin"):
        world.lanes = world.rng.choice([1, 2, 3])
        for process in known:
            process.known = False
        return
    results = []
    for lane in lanes:
        mine = [p for p in known if p.task == lane]
        if not mine or (mine[-1].ended and mine[-1].result is None):
            if mine and mine[-1].error is not None and _is_final(world, mine[-1]):
                return
            world.start(lane)
        elif mine[-1].ended:
            results.append(mine[-1].result)
    if len(results) == len(lanes):
        _passed(world, stage, results)


def _passed(world: World, stage: str, results: list[Any]) -> None:
    if stage == "consume_log":
        world.judge.announcements.check_consumed(max(p.head for p in world.processes if p.known and p.task == stage))
    if stage == "finish" and not world.judge.finished:
        raise Violation("finish succeeded without an effective hand-off record")
    if stage == "upstream":
        world.judge.check_end()
        _followed(world)
    else:
        world.stage += 1


def _followed(world: World) -> None:
    """Keys that are in several partitions go on coming, in no order."""
    world.runs += 1
    if not world.ordered or world.runs == RUNS:
        world.outcome = "DONE"
        return
    world.source.write(world.writers_now)
    for process in world.processes:
        process.known = False


def _is_final(world: World, process: Process) -> bool:
    """Decide about an attempt of Airflow's that ended with an error: retry, or the end of the build."""
    error = process.error
    assert error is not None
    process.known = False
    if error.code == "CANCELLED" or (error.code == "NOT_ALLOWED_NOW" and world.judge.cancelled):
        _resume(world)
        return True
    _check_error(world, process, error)
    if error.retry or error.code == "FENCED" or world.judge.between(process.name):
        return False
    slept = process.began <= world.cleaned or (process.outlived and not world.target.outlived)
    if error.code == "HISTORY_LOST" and slept and "of the target's log" in error.message:
        return False  # it slept while the log was cleaned up, or read what a sleeper had left, and is cleared
    if world.fatal == "put back" and error.code == ENDS[world.fatal] and not world.judge.stale:
        raise Violation(f"all that was applied is in the history that is there, but {process.task} ended: {error}")
    if world.fatal_done and (_is_caused(world, error) or error.code == "VERIFICATION_FAILED"):
        helped = _helped(world, error) or way_out.rewritten(world) or way_out.removed(world)
        world.outcome = "" if helped else error.code
    elif error.code == "HISTORY_LOST" and world.target.outlived:
        world.outcome = error.code
    elif error.code == "NOT_CONVERGING" and (world.storm or world.write_rate):
        way_out.calmed(world, error)
    elif error.code == "UNDECODABLE" and world.stops_at_undecodable:
        way_out.put_aside(world, process)
    elif isinstance(world.source, LandingSource) and _topic_ended(world, error, world.source):
        world.outcome = error.code
    else:
        raise Violation(f"{process.task} failed without a cause: {error}")
    return True


def _is_caused(world: World, error: BackfillError) -> bool:
    """Whether what ended the build is the world's fault, or was done by somebody who meddled with a recovery."""
    world.judge.look()
    return error.code == ENDS.get(world.fatal or "") or (
        error.code == "TARGET_DIVERGED" and world.judge.foreign_at is not None
    )


def _helped(world: World, error: BackfillError) -> bool:
    return (
        way_out.rewound(world, error)
        or way_out.put_right(world)
        or way_out.undone(world)
        or way_out.taken_over(world, error)
    )


def _check_error(world: World, process: Process, error: BackfillError) -> None:
    """Raise for an error that nothing excuses."""
    if error.code == "FENCED" and not _rivals(world, process):
        raise Violation(f"the attempt that Airflow knows was fenced: {error}")
    if error.code == "INTERRUPTED":
        raise Violation(f"{process.task} ended by a command that only stops a round: {error}")


def _topic_ended(world: World, error: BackfillError, source: LandingSource) -> bool:
    """Whether the topic or its ingestion has brought about what the error says."""
    match error.code:
        case "KAFKA_LOST":
            return bool(world.happened["retention"]) and _may_be_lost(world, **error.data)
        case "PARTITION_INCOMPLETE":
            return source.joined_late
        case "PARTITIONS_GREW":
            return bool(world.keyed) and not world.ordered and bool(world.judge.partitions.grown)
        case _:
            return False


def _may_be_lost(world: World, partition: int, wanted: int, have: int, **_: int) -> bool:
    """Whether the landing table does not show that it has all, or what it has cannot be read any more."""
    assert isinstance(world.source, LandingSource)
    landed = world.source.kept(partition, Offsets(0, MAX), world.source.head)
    return world.fatal_done or not landed or landed[0] > wanted or landed[-1] < have - 1


def _rivals(world: World, process: Process) -> bool:
    """Whether Airflow itself started a newer attempt that competes with this one: a twin, a clear, other lanes; that of
    a snapshot whose application goes on.
    """
    return any(
        rival.generation > process.generation
        and (
            rival.task == process.task
            or rival.task.split("/")[0] != "snapshot"
            or rival.lanes != process.lanes
            or world.through
        )
        for rival in world.started
    )


def _resume(world: World) -> None:
    if not any(p.task == "resume" and not p.ended for p in world.processes):
        world.start("resume")
    world.stage = 1
    for process in world.processes:
        process.known = process.known and process.task == "resume"


def _gate(world: World) -> None:
    match world.peek():
        case gate.Ready():
            world.stage += 1
        case gate.Broken(error):
            _gate_broken(world, error)
        case gate.Waiting(_, lag) if lag or _unannounced(world):
            world.stage = STAGES.index("consume_log")
            for process in world.processes:
                process.known = process.known and process.task != "consume_log"


def _unannounced(world: World) -> bool:
    state = world.drive(load(world.build))
    return unannounced(state, world.source.view(state.plan, state.reached))


def _gate_broken(world: World, error: BackfillError) -> None:
    if error.code == "CANCELLED":
        _resume(world)
    elif world.fatal_done and _is_caused(world, error):
        world.outcome = "" if _helped(world, error) or way_out.removed(world) else error.code
    elif error.code == "HISTORY_LOST" and world.target.outlived:
        world.outcome = error.code
    else:
        raise Violation(f"the gate broke without a cause: {error}")


def _run_by_hand(world: World) -> None:
    """Start it again until it is done; then the DAG goes on with the verification."""
    mine = [p for p in world.processes if p.known and p.task == world.by_hand]
    if not mine:
        world.start(world.by_hand)
    elif mine[-1].ended:
        error, mine[-1].known = mine[-1].error, False
        if mine[-1].result is not None:
            rewound = world.by_hand == "recover" and world.named is None
            world.stage = STAGES.index(_STAGE_IN[mine[-1].result.phase] if rewound else "verify")
            world.by_hand = ""
        elif error is not None and error.code == "NOT_ALLOWED_NOW" and world.named is None:
            world.judge.look()
            way_out.leads_on(world, error)
            way_out.restored(world, error)  # somebody wrote rows after the RESTORE
        elif error is not None and error.code == "HISTORY_LOST" and world.named is None and world.ages:
            world.by_hand = ""
            world.outcome = "" if way_out.put_right(world) else error.code
        elif error is not None and error.code == "HISTORY_LOST" and mine[-1].began <= world.cleaned:
            pass  # it slept while the log was cleaned up, and is started again
        elif error is not None and not error.retry and error.code != "FENCED":
            raise Violation(f"{world.by_hand} failed without a cause: {error}")
