"""How a barrier changes the state of a build, and which barriers the protocol allows.

``apply`` and ``announce`` accept exactly what the protocol allows in a state. Anything else is an error with the
reason, so that no work is based on an edited or foreign record.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.errors import Discontinuous, PositionRegressed, RecordInvalid
from airflow_backfill.core.model.announcement import Announced, Announcement
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Layout, Record, named
from airflow_backfill.core.splits.position import Position, applied_by, check_successor, later, together
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.target_table.foreign_commits import check_follows
from airflow_backfill.core.values.phase import TRANSITIONS, Event, Phase


def from_last(
    plan: Plan, barriers: tuple[Barrier | None, ...], proven: int, announced: Announced | None = None
) -> BuildState:
    """The state in the last barriers of all lanes of the newest layout and the last announcement."""
    found = [b for b in barriers if b is not None]
    if not found:
        raise RecordInvalid("no barrier to resume from")
    newest = max(found, key=lambda b: b.version)
    check_follows(plan, newest.version, newest.record.prev)
    state = BuildState(
        plan, newest.record.layout, barriers, newest, newest.record.base, proven, plan.splits.first(plan.source.epoch)
    )
    for barrier in found:
        with named(barrier.version):
            _check_identity(state, barrier.record)
            if barrier.record.layout != state.layout:
                raise RecordInvalid("the last barriers of the lanes belong to different layouts")
            state = replace(state, positions=_joined(state, barrier.record.positions))
    with named(newest.version):
        _check_standing(state.phase, state.positions, plan)
    return _shown(replace(state, announced=announced))


def opened(state: BuildState) -> BuildState:
    """The state in the next layout, which the first lane's closing record decided. Positions and totals are kept."""
    if not state.closed:
        raise RecordInvalid("a layout begins only after every lane of the last one is closed")
    first = state.lanes[0]
    assert first is not None and first.record.next_lanes is not None
    lanes = first.record.next_lanes
    layout = Layout(state.layout.number + 1, lanes)
    return replace(state, layout=layout, lanes=(None,) * lanes, base=state.totals)


def apply(state: BuildState, barrier: Barrier) -> BuildState:
    """The state after ``barrier``; raises a BackfillError, which names its version, if the protocol does not allow it
    here.
    """
    record = barrier.record
    if record.event in (Event.RECOVER, Event.REWIND):
        # A recovery ends the lane of announcements, a rewind takes none of them back.
        kept = state.announced or record.news or Announced(state.plan.source.epoch)
        return from_last(state.plan, (barrier,), state.proven, None if record.announced is None else kept)
    with named(barrier.version):
        return _applied(state, barrier, record)


def _applied(state: BuildState, barrier: Barrier, record: Record) -> BuildState:
    _check_identity(state, record)
    if record.layout != state.layout and state.closed:
        state = opened(state)
    if record.layout != state.layout:
        raise RecordInvalid(f"it belongs to layout {record.layout}, but the build is in {state.layout}")
    _check_lane(state, barrier)
    if record.base != state.base:
        raise RecordInvalid(f"the totals of layout {record.layout.number} do not continue those of earlier layouts")
    if TRANSITIONS[state.phase].get(record.event) is not record.phase:
        raise RecordInvalid(f"{record.event.value} cannot lead from {state.phase.value} to {record.phase.value}")
    _check_positions(state, record)
    _check_promises(state, record)
    lanes = (*state.lanes[: record.lane], barrier, *state.lanes[record.lane + 1 :])
    after = replace(state, lanes=lanes, newest=barrier, positions=_joined(state, record.positions))
    _check_standing(record.phase, after.positions, state.plan)
    return _shown(after)


def announce(state: BuildState, version: int, news: Announcement) -> BuildState:
    """The state after an announcement; RecordInvalid if the protocol does not allow it here.

    Announcements after a recovery are ignored, because the recovery has ended their lane.
    """
    if state.announced is None:
        return state
    if (news.build, news.plan) != (state.plan.build, state.plan.fingerprint):
        raise RecordInvalid(f"version {version} announces epochs of build {news.build}", version=version)
    return _shown(replace(state, announced=state.announced.after(version, news)))


def _shown(state: BuildState) -> BuildState:
    """The state without its lane of announcements, if that has ended and all announced data is applied."""
    lane = state.announced
    over = lane is not None and not lane.open and state.applied is not None and state.applied >= lane.seen
    return replace(state, announced=None) if over else state


def _joined(state: BuildState, other: tuple[Position, ...]) -> tuple[Position, ...]:
    widened, epoch = state.plan.splits.widened, state.plan.source.epoch
    one, other = widened(state.positions, len(other), epoch), widened(other, len(state.positions), epoch)
    return tuple(later(a, b) for a, b in zip(one, other, strict=True))


def _check_identity(state: BuildState, record: Record) -> None:
    if record.build != state.plan.build or record.plan != state.plan.fingerprint:
        raise RecordInvalid(
            f"the record of seq {record.seq} follows plan {record.plan} of build {record.build}, "
            f"but the target's plan is {state.plan.fingerprint} of build {state.plan.build}"
        )
    planned, found = len(state.plan.splits), len(record.positions)
    if found < planned or (found > planned and not state.plan.splits.grows):
        raise RecordInvalid(f"the record has {found} splits, but the plan has {planned}")


def _check_lane(state: BuildState, barrier: Barrier) -> None:
    record, last = barrier.record, state.lanes[barrier.record.lane]
    seq = last.record.seq if last is not None else 0
    if record.seq != seq + 1:
        raise RecordInvalid(f"seq {record.seq} follows seq {seq} in lane {record.lane}")
    if last is not None and last.record.closed:
        raise RecordInvalid(f"lane {record.lane} of layout {record.layout.number} is closed")
    generation = state.generation(record.lane)
    takes_over = record.event in (Event.CLAIM, Event.CLOSE)
    same = last is not None and last.record.attempt == record.attempt and generation == record.generation
    carries_out = record.closed and record.lane > 0 and state.closing
    if not same and not carries_out and not (takes_over and record.generation > generation):
        raise RecordInvalid(
            f"attempt {record.attempt} of generation {record.generation} did not claim the lane from generation "
            f"{generation}"
        )
    check_follows(state.plan, barrier.version, record.prev)


def _check_positions(state: BuildState, record: Record) -> None:
    splits, epoch = state.plan.splits, state.plan.source.epoch
    known = splits.widened(state.positions, len(record.positions), epoch)
    for split, (before, after) in enumerate(zip(known, record.positions, strict=False)):
        if after.rank < before.rank and not state.owns(record.lane, split):
            continue  # another lane's split; the writer did not know its progress yet
        check_successor(split, before, after)
        if after.rank > before.rank and not _may_move(state, record, split):
            raise PositionRegressed(f"{record.event.value} cannot move split {split} from {before} to {after}")
        if (objection := splits.objection(split, before, after, epoch)) is not None:
            raise PositionRegressed(objection, split=split)


def _may_move(state: BuildState, record: Record, split: int) -> bool:
    reading = record.event in (Event.FILES, Event.CHUNKS, Event.OFFSETS)
    return record.event is Event.EPOCHS or (reading and state.owns(record.lane, split))


def _check_promises(state: BuildState, record: Record) -> None:
    """Facts that must not change after a barrier committed them, and the preconditions of each event."""
    kept = record.event is not Event.RESUME
    if kept and state.handoff is not None and record.handoff != state.handoff:
        raise RecordInvalid(f"the hand-off epoch changed from {state.handoff} to {record.handoff}")
    if kept and record.event is not Event.CERTIFY and record.certificate != state.certificate:
        raise RecordInvalid("a certificate appeared or changed without a verification")
    if state.bound is not None and record.bound is not None and kept and record.event is not Event.SEAL:
        if record.bound.start != state.bound.start or record.bound.value > state.bound.value:
            raise RecordInvalid(f"the bound grew from {state.bound} to {record.bound}")
    if state.rearranging and (record.announced is None or record.event in (Event.CERTIFY, Event.FINISH)):
        raise RecordInvalid(f"{record.event.value} was committed before all announced epochs were applied")
    _check_recovered(state, record)
    if record.event is Event.EPOCHS:
        _check_epochs(state, record)
    if record.event is Event.FINISH and record.certificate is not None:
        if record.certificate.epoch != record.handoff:
            raise RecordInvalid(f"the certificate is for epoch {record.certificate.epoch}, not {record.handoff}")
    if record.event is Event.FINISH and applied_by(state.positions) != record.handoff:
        raise RecordInvalid(f"finished at {applied_by(state.positions)}, not at the hand-off epoch {record.handoff}")


def _check_recovered(state: BuildState, record: Record) -> None:
    if record.recovered != (None if record.event is Event.CERTIFY else state.recovered):
        raise RecordInvalid("the epoch of a recovery appeared, changed, or went without a verification")


def _check_epochs(state: BuildState, record: Record) -> None:
    applied, epochs = state.applied, record.epochs
    if applied is None or epochs is None or epochs.start != applied + 1:
        found = epochs.start if epochs is not None else None
        raise Discontinuous(f"epoch {found} was applied after epoch {applied}", applied=applied, found=found)
    claimed = record.positions[0].newest_epoch
    if state.announced is not None and state.rearranging and epochs.last > state.announced.seen:
        raise RecordInvalid(f"epoch {epochs.last} was applied, but only {state.announced.seen} is announced")
    if claimed != epochs.last or (record.phase is Phase.CATCH_UP and epochs.last > (record.handoff or 0)):
        raise Discontinuous(f"the record is at {claimed}, its epochs end at {epochs.last}, hand-off {record.handoff}")


def _check_standing(phase: Phase, positions: tuple[Position, ...], plan: Plan) -> None:
    """After the seal, all splits stand at one epoch; before it, none is past the pinned epoch (S003.23)."""
    epoch = plan.source.epoch
    if together(positions):
        stands = applied_by(positions)
        if stands is None or stands < epoch:
            raise RecordInvalid(f"every split stands at {positions[0]}, before the pinned epoch {epoch}")
        return
    if phase not in (Phase.SNAPSHOT, Phase.CANCELLED):
        odd = next((n for n, p in enumerate(positions) if p != positions[0]), 0)
        raise RecordInvalid(
            f"in {phase.value} all splits must stand at one epoch, but split {odd} is at {positions[odd]}", split=odd
        )
    plan.splits.check_standing(positions, epoch)
