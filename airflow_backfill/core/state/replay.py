"""What each barrier does to the state of a build, and which barriers the protocol allows.

``apply`` and ``announce`` accept exactly what the protocol allows in a state; anything else is an error that names what
is wrong, so that an edited or foreign record is never worked on.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.errors import Discontinuous, PositionRegressed, RecordInvalid
from airflow_backfill.core.kafka.partitions import Partitions
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.announcement import Announced, Announcement
from airflow_backfill.core.model.key_ranges import KeyRanges
from airflow_backfill.core.model.plan import Plan, SplitPlan
from airflow_backfill.core.model.position import (
    AtFile,
    AtKey,
    AtOffset,
    Consumed,
    InEpoch,
    Position,
    check_successor,
    later,
    rank,
)
from airflow_backfill.core.model.record import Layout, Record
from airflow_backfill.core.state.state import Barrier, BuildState, applied_by, initial, together
from airflow_backfill.core.values import phase as phases
from airflow_backfill.core.values.phase import Event, Phase


def from_last(
    plan: Plan, barriers: tuple[Barrier | None, ...], proven: int, announced: Announced | None = None
) -> BuildState:
    """The state that the last barriers of all lanes of the newest layout say, and the last announcement."""
    found = [b for b in barriers if b is not None]
    if not found:
        raise RecordInvalid("no barrier to resume from")
    newest = max(found, key=lambda b: b.version)
    state = BuildState(plan, newest.record.layout, barriers, newest, newest.record.base, proven, initial(plan))
    for barrier in found:
        _check_identity(state, barrier.record)
        if barrier.record.layout != state.layout:
            raise RecordInvalid("the last barriers of the lanes belong to different layouts")
        state = replace(state, positions=_joined(state, barrier.record.positions))
    _check_standing(state.phase, state.positions, plan)
    return _shown(replace(state, announced=announced))


def opened(state: BuildState) -> BuildState:
    """The next layout, as the closing record of the first lane decided it; positions and totals go along."""
    if not state.closed:
        raise RecordInvalid("a layout begins only when every lane of the last one is closed")
    first = state.lanes[0]
    assert first is not None and first.record.next_lanes is not None
    lanes = first.record.next_lanes
    layout = Layout(state.layout.number + 1, lanes)
    return replace(state, layout=layout, lanes=(None,) * lanes, base=state.totals)


def apply(state: BuildState, barrier: Barrier) -> BuildState:
    """The state after ``barrier``; raises, and nothing changes, if the protocol does not allow it here."""
    record = barrier.record
    _check_identity(state, record)
    if record.event is Event.RECOVER:
        return from_last(state.plan, (barrier,), state.proven)
    if record.layout != state.layout and state.closed:
        state = opened(state)
    if record.layout != state.layout:
        raise RecordInvalid(
            f"version {barrier.version} belongs to layout {record.layout}, the build is in {state.layout}",
            version=barrier.version,
        )
    _check_lane(state, barrier)
    if record.base != state.base:
        raise RecordInvalid(f"the totals of layout {record.layout.number} do not continue those before it")
    if phases.after(state.phase, record.event) is not record.phase:
        raise RecordInvalid(f"version {barrier.version} says {record.phase.value} after {record.event.value}")
    _check_positions(state, record)
    _check_promises(state, record)
    lanes = (*state.lanes[: record.lane], barrier, *state.lanes[record.lane + 1 :])
    after = replace(state, lanes=lanes, newest=barrier, positions=_joined(state, record.positions))
    _check_standing(record.phase, after.positions, state.plan)
    return _shown(after)


def announce(state: BuildState, version: int, news: Announcement) -> BuildState:
    """The state after an announcement; raises, and nothing changes, if the protocol does not allow it here.

    What is announced after a recovery ended the lane says nothing any more.
    """
    if state.announced is None:
        return state
    if (news.build, news.plan) != (state.plan.build, state.plan.fingerprint):
        raise RecordInvalid(f"version {version} announces epochs of build {news.build}", version=version)
    return _shown(replace(state, announced=state.announced.after(version, news)))


def _shown(state: BuildState) -> BuildState:
    """Nothing is kept of announcements that ended, once all of their data is there."""
    lane = state.announced
    over = lane is not None and not lane.open and state.applied is not None and state.applied >= lane.seen
    return replace(state, announced=None) if over else state


def widened(state: BuildState, positions: tuple[Position, ...], count: int) -> tuple[Position, ...]:
    """``positions`` of at least ``count`` splits: of a partition that appeared nothing is known to begin with."""
    missing = range(len(positions), count)
    return positions + tuple(AtOffset(state.plan.source.epoch, Split(partition)) for partition in missing)


def _joined(state: BuildState, other: tuple[Position, ...]) -> tuple[Position, ...]:
    one, other = widened(state, state.positions, len(other)), widened(state, other, len(state.positions))
    return tuple(later(a, b) for a, b in zip(one, other, strict=True))


def _check_identity(state: BuildState, record: Record) -> None:
    if record.build != state.plan.build or record.plan != state.plan.fingerprint:
        raise RecordInvalid(
            f"the record of seq {record.seq} follows plan {record.plan} of build {record.build}, "
            f"the target's plan is {state.plan.fingerprint} of build {state.plan.build}"
        )
    planned, found = len(state.plan.splits), len(record.positions)
    if found < planned or (found > planned and not state.plan.of_topic):
        raise RecordInvalid(f"the record has {found} splits, the plan {planned}")


def _check_lane(state: BuildState, barrier: Barrier) -> None:
    record, last = barrier.record, state.lanes[barrier.record.lane]
    seq = last.record.seq if last is not None else 0
    if record.seq != seq + 1:
        raise RecordInvalid(f"seq {record.seq} follows seq {seq} in lane {record.lane}", version=barrier.version)
    if last is not None and last.record.closed:
        raise RecordInvalid(f"lane {record.lane} of layout {record.layout.number} is closed", version=barrier.version)
    generation = state.generation(record.lane)
    takes_over = record.event in (Event.CLAIM, Event.CLOSE)
    same = last is not None and last.record.attempt == record.attempt and generation == record.generation
    carries_out = record.closed and record.lane > 0 and state.closing
    if not same and not carries_out and not (takes_over and record.generation > generation):
        raise RecordInvalid(
            f"attempt {record.attempt} of generation {record.generation} wrote version {barrier.version} without "
            f"having claimed the lane from generation {generation}",
            version=barrier.version,
        )
    if not record.prev < barrier.version:
        raise RecordInvalid(f"version {barrier.version} claims to have seen version {record.prev}")


def _check_positions(state: BuildState, record: Record) -> None:
    known = widened(state, state.positions, len(record.positions))
    for split, (before, after) in enumerate(zip(known, record.positions, strict=False)):
        if rank(after) < rank(before) and not state.owns(record.lane, split):
            continue  # another lane's split, not yet seen by this writer
        check_successor(split, before, after)
        moved = rank(after) > rank(before)
        if moved and not _may_move(state, record, split):
            raise PositionRegressed(f"{record.event.value} cannot move split {split} from {before} to {after}")
        splits = state.plan.splits
        if moved and isinstance(after, AtFile) and isinstance(splits, SplitPlan) and after.files >= splits.size(split):
            raise PositionRegressed(f"split {split} has no file {after.files}", split=split)
        if isinstance(before, AtFile) and isinstance(after, Consumed) and after.epoch != state.plan.source.epoch:
            raise PositionRegressed(f"split {split} was read at the wrong epoch {after.epoch}", split=split)


def _may_move(state: BuildState, record: Record, split: int) -> bool:
    reading = record.event in (Event.FILES, Event.CHUNKS, Event.OFFSETS)
    return record.event is Event.EPOCHS or (reading and state.owns(record.lane, split))


def _check_promises(state: BuildState, record: Record) -> None:
    """What must never change once a barrier said it, and what an event has to rest on."""
    kept = record.event is not Event.RESUME
    if kept and state.handoff is not None and record.handoff != state.handoff:
        raise RecordInvalid(f"the hand-off epoch {state.handoff} became {record.handoff}")
    if kept and record.event is not Event.CERTIFY and record.certificate != state.certificate:
        raise RecordInvalid("a certificate appeared or changed without a verification")
    if state.bound is not None and record.bound is not None and kept and record.event is not Event.SEAL:
        if record.bound.start != state.bound.start or record.bound.value > state.bound.value:
            raise RecordInvalid(f"the bound grew from {state.bound} to {record.bound}")
    if state.rearranging and (record.announced is None or record.event in (Event.CERTIFY, Event.FINISH)):
        raise RecordInvalid(f"{record.event.value} before the data has reached what was announced")
    if record.event is Event.EPOCHS:
        _check_epochs(state, record)
    if record.event is Event.FINISH and record.certificate is not None:
        if record.certificate.epoch != record.handoff:
            raise RecordInvalid(f"the certificate is for {record.certificate.epoch}, not {record.handoff}")
    if record.event is Event.FINISH and applied_by(state.positions) != record.handoff:
        raise RecordInvalid(f"finished at {applied_by(state.positions)}, not at the hand-off epoch {record.handoff}")


def _check_epochs(state: BuildState, record: Record) -> None:
    applied, epochs = state.applied, record.epochs
    if applied is None or epochs is None or epochs.start != applied + 1:
        found = epochs.start if epochs is not None else None
        raise Discontinuous(f"epoch {found} was applied after {applied}", applied=applied, found=found)
    reached = record.positions[0]
    claimed = reached.epoch if isinstance(reached, (AtOffset, Consumed, InEpoch)) else None
    if state.announced is not None and state.rearranging and epochs.last > state.announced.seen:
        raise RecordInvalid(f"epoch {epochs.last} was applied, announced is {state.announced.seen}")
    if claimed != epochs.last or (record.phase is Phase.CATCH_UP and epochs.last > (record.handoff or 0)):
        raise Discontinuous(f"the record claims {claimed}, its epochs end at {epochs.last}, hand-off {record.handoff}")


def _check_standing(phase: Phase, positions: tuple[Position, ...], plan: Plan) -> None:
    """From the seal on all splits stand together; before it none is past the pinned epoch (seeds 000 and 003)."""
    epoch = plan.source.epoch
    if together(positions):
        stands = applied_by(positions)
        if stands is None or stands < epoch:
            raise RecordInvalid(f"every split stands at {positions[0]}, before the pinned epoch {epoch}")
        return
    if phase not in (Phase.SNAPSHOT, Phase.CANCELLED):
        odd = next((n for n, p in enumerate(positions) if p != positions[0]), 0)
        raise RecordInvalid(
            f"in {phase.value} all splits stand at one epoch, but split {odd} at {positions[odd]}", split=odd
        )
    match plan.splits:
        case KeyRanges():
            _check_ranges(positions, epoch)
        case SplitPlan():
            _check_files(positions, epoch, plan.splits)
        case Partitions():
            _check_partitions(positions, epoch)


def _check_files(positions: tuple[Position, ...], epoch: int, splits: SplitPlan) -> None:
    for split, position in enumerate(positions):
        files = splits.size(split)
        if position != Consumed(epoch) and not (isinstance(position, AtFile) and position.files < max(files, 1)):
            raise RecordInvalid(
                f"split {split} of {files} files cannot stand at {position} while epoch {epoch} is read", split=split
            )


def _check_ranges(positions: tuple[Position, ...], epoch: int) -> None:
    """A round takes all ranges to one epoch, none of them before the planned one."""
    epochs = {position.epoch for position in positions if isinstance(position, (AtKey, Consumed))}
    strange = any(not isinstance(position, (AtKey, Consumed)) for position in positions)
    if strange or len(epochs) != 1 or min(epochs) < epoch:
        raise RecordInvalid(f"ranges stand at epochs {sorted(epochs)}, planned at {epoch}", epochs=sorted(epochs))


def _check_partitions(positions: tuple[Position, ...], epoch: int) -> None:
    """Each partition stands at an epoch of its own, none of them before the pinned one."""
    for partition, position in enumerate(positions):
        fits = isinstance(position, AtOffset) and position.split.partition == partition and position.epoch >= epoch
        if not fits:
            raise RecordInvalid(f"partition {partition} cannot stand at {position}", split=partition)
