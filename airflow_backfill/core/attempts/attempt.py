"""The protocol of an attempt: each step of a goal becomes a barrier exactly once, even if other attempts run.

The simulation breaks each of these rules on purpose, which proves that it is needed:

* An attempt begins with a claim, an empty barrier with its generation. A newer attempt always has a higher generation,
  and the newest wins. An attempt that finds a higher generation in its lane, or finds the lane closed, raises Fenced
  and writes nothing more.
* The store's answer to a commit proves nothing. After every write the log is read back: the round counts if the log has
  this seq with this attempt's name. State always comes from the log.
* A round that was not committed is planned again from the new state, CONTENTION_LIMIT times; then TargetContended.
* Every commit between the last proven version and the attempt's own is checked before the next step.
* All lanes of a layout are closed before the next layout begins. The closing record of the first lane decides how many
  lanes come next, so that two attempts that want different numbers agree.
* Commands take effect at the next barrier, whose record acknowledges them. A command that stops work interrupts a long
  round, which counts neither as a lost race nor as an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.attempts.goals import CancelGoal, Goal, ResumeGoal
from airflow_backfill.core.attempts.proving import compared
from airflow_backfill.core.attempts.throttle import due_after, held
from airflow_backfill.core.errors import (
    BackfillError,
    Cancelled,
    ExecutorLost,
    Fenced,
    Interrupted,
    SourceUnavailable,
    TargetContended,
)
from airflow_backfill.core.model.record import Pending, Record, app_id
from airflow_backfill.core.reports.progress import progress_with
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.identity import check_ahead, check_source
from airflow_backfill.core.source.looks import NEVER, Looks
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.position import Position, newest_epoch
from airflow_backfill.core.state.effect import (
    Asks,
    CommandsRead,
    CommitRecord,
    Nothing,
    ReadCommands,
    ReadCost,
    ReadSourceLog,
    ReadTransactions,
    SleepUntil,
    VerifyTarget,
)
from airflow_backfill.core.state.load import catch_up, load
from airflow_backfill.core.state.replay import opened
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Certify, Changes, Done, Follow, Move, Observed, Read, Step, Wait, or_else
from airflow_backfill.core.strategies.strategy import strategy_of
from airflow_backfill.core.target_table.rules import check_rules
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.control import Control, obey, resumed
from airflow_backfill.core.values.pace import Pace
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.phase import after as phase_after
from airflow_backfill.core.values.totals import Totals

CONTENTION_LIMIT = 12
"""Maximum tries in a row for one barrier."""
BACK_OFF_MS = 250
"""Milliseconds before a round is repeated for the first time; doubled each time."""
LOOK_FOR_FENCE = 4
"""After so many tries in a row, seconds after the first, an attempt looks whether a recovery has taken its place."""
TROUBLES = 4
"""Maximum tries in a row of a round that fails with an error that passes: the source does not answer, or an executor
ended. They take 90 seconds; then the attempt ends, and Airflow tries again.
"""
HEARTBEAT_MS = 60_000
"""A waiting attempt renews its record after this time, in milliseconds."""

Protocol = Asks[BuildState]


def run(goal: Goal, me: Attempt, build: str | None = None) -> Protocol:
    """Work on ``goal`` until it is a committed fact. Returns the state then; raises a BackfillError otherwise."""
    state = yield from load(build)
    misses, troubles, begins, pace, looks = 0, _Troubles(), True, Pace(), NEVER
    while misses < CONTENTION_LIMIT:
        if goal.done(state):
            return state
        goal.check(state)
        observed = yield from _observe(state, goal, pace, looks)
        looks = observed.looks
        if _owns(state, goal, me):
            lane, step = goal.lane, goal.step(state, observed)
        else:
            state = opened(state) if state.closed else state
            lane, step = _entry(state, goal, me)
        move, pace = yield from _chosen(state, lane, observed, step, troubles, begins=begins)
        if isinstance(move, Done):
            return state
        if isinstance(move, Move):
            try:
                state, landed = yield from _commit(state, lane, me, move, observed)
            except _PASSING as error:
                move = troubles.wait(error, observed.now)
        if isinstance(move, Wait):
            yield from SleepUntil(move.until, observed.now, move.why, move.for_commit)
            state = yield from catch_up(state)
            continue
        pace = _paced(pace, observed.now, move, landed)
        misses = 0 if landed is not False else misses + 1
        troubles.count = troubles.count if move.event is Event.MARK else 0
        begins = begins and not (landed and move.event is Event.OFFSETS)
        if 0 < misses < CONTENTION_LIMIT:
            until = observed.now + (BACK_OFF_MS << misses)
            yield from SleepUntil(until, observed.now, "another commit came first")
            state = yield from catch_up(state)
            if misses == LOOK_FOR_FENCE:
                state = yield from _unfenced(state, lane)
    raise TargetContended(f"other commits came before the same barrier {misses} times in a row", tries=misses)


_PASSING = (SourceUnavailable, ExecutorLost)
"""Errors that pass: the round is repeated."""


@dataclass
class _Troubles:
    """Passing errors in a row."""

    count: int = 0

    def wait(self, error: BackfillError, now: int) -> Wait:
        """The wait before the round is repeated; the error itself if there were too many."""
        self.count += 1
        if self.count > TROUBLES:
            raise error
        why = f"the round failed ({self.count} of {TROUBLES}): {error.message}"
        return Wait(now + (BACK_OFF_MS << 2 * self.count), why, say=True)


def _chosen(
    state: BuildState, lane: int, observed: Observed, step: Step, troubles: _Troubles, *, begins: bool
) -> Asks[tuple[Move | Wait | Done, Pace]]:
    """What to do now, and the pace of the attempt."""
    pace = observed.pace
    try:
        move = yield from decided(state, lane, observed, step, begins=begins)
    except _PASSING as error:
        move = troubles.wait(error, observed.now)
    except Interrupted as error:
        pace, move = pace.interrupted(), Wait(observed.now, error.message)
    return (_renewed(move, state, lane, observed) if isinstance(move, Wait) else move), pace


def _owns(state: BuildState, goal: Goal, me: Attempt) -> bool:
    """Whether this attempt owns the goal's lane, in a layout with the number of lanes that the goal wants."""
    if state.layout.lanes != goal.lanes:
        return False
    barrier = state.lanes[goal.lane]
    return barrier is not None and barrier.record.attempt == me.name and not barrier.record.closed


def _entry(state: BuildState, goal: Goal, me: Attempt) -> tuple[int, Move]:
    """The lane and barrier with which the attempt enters: close a layout that the goal does not want, else claim."""
    first = state.lanes[0]
    decided = first.record if first is not None and first.record.closed else None
    coming = state.layout.lanes if decided is None else decided.next_lanes
    if coming != goal.lanes and me.generation <= _decider(state, me):
        raise Fenced(f"a newer attempt wants {coming} lanes, this one {goal.lanes}", attempt=me.name)
    if decided is None and coming == goal.lanes:
        _check_not_fenced(state, goal.lane, me)
        return goal.lane, Move(Event.CLAIM, changes=Changes(bound=state.bound.renewed()) if state.bound else Changes())
    lane = next(n for n, b in enumerate(state.lanes) if b is None or not b.record.closed)
    _check_not_fenced(state, lane, me)
    by = me.generation if decided is None else decided.decided_by
    return lane, Move(Event.CLOSE, changes=Changes(next_lanes=coming if decided else goal.lanes, decided_by=by))


def _decider(state: BuildState, me: Attempt) -> int:
    """The newest generation that wants the next layout or the current one: the attempt that decided on it, or one that
    works in it. An attempt that closed another lane does not count, because it may want the same layout as this one.
    """
    decision = state.lanes[0] if state.lanes[0] is not None and state.lanes[0].record.closed else None
    if decision is None and not any(state.lanes):
        decision = state.newest
    if decision is not None and decision.record.closed:
        return decision.record.decided_by or 0
    others = (b.record.generation for b in state.known if b.record.attempt != me.name)
    return max(_laid_by(state) or 0, *others, 0)


def _laid_by(state: BuildState) -> int | None:
    """The generation that decided on the current layout; None if no attempt did."""
    if not any(state.lanes):
        return state.newest.record.decided_by if state.newest is not None and state.newest.record.closed else None
    open_ = (b.record.decided_by for b in state.known if not b.record.closed)
    return max((generation for generation in open_ if generation is not None), default=None)


def _commit(
    state: BuildState, lane: int, me: Attempt, move: Move, observed: Observed
) -> Asks[tuple[BuildState, bool | None]]:
    """Write a barrier and read the log back. Returns the state, and whether the barrier landed; None if a command
    interrupted it.
    """
    record = _record(state, lane, me, move, observed)
    written = yield from CommitRecord(record, move.work)
    state = yield from catch_up(state)
    entering = move.event in (Event.CLAIM, Event.CLOSE)
    if state.layout == record.layout:
        barrier = state.lanes[lane]
        if barrier is not None and (barrier.record.attempt, barrier.record.seq) == (me.name, record.seq):
            return state, True
        if not (entering and barrier is not None and barrier.record.closed):
            _check_not_fenced(state, lane, me)
    if isinstance(written.error, Interrupted):
        return state, None
    if written.error is not None:
        raise written.error
    return state, False


def _paced(pace: Pace, begun: int, move: Move, landed: bool | None) -> Pace:
    """What the attempt knows about its rounds, including this one."""
    if landed is None:
        return pace.interrupted()
    return pace.landed(begun) if landed and not isinstance(move.work, Nothing) else pace


def _check_not_fenced(state: BuildState, lane: int, me: Attempt) -> None:
    """Raise Fenced if a newer attempt has the lane, or decided to close it. Any attempt completes a decision of an
    older one. All attempts that want another layout meet in the next layout, where the newest wins.
    """
    barrier = state.lanes[lane]
    if barrier is None or barrier.record.attempt == me.name or (lane > 0 and state.closing):
        return
    newest = barrier.record.decided_by if barrier.record.closed else barrier.record.generation
    assert newest is not None
    if newest >= me.generation:
        raise Fenced(
            f"attempt {barrier.record.attempt} of generation {barrier.record.generation} has taken over",
            attempt=me.name,
            by=barrier.record.attempt,
            version=barrier.version,
        )


def _unfenced(state: BuildState, lane: int) -> Protocol:
    """The newest state. Raises TargetContended if a fence, and no record, has the lane's next transaction number."""
    taken = (yield from ReadTransactions()).versions.get(app_id(state.plan.build, state.layout.number, lane), 0)
    newest = yield from catch_up(state)
    if newest.layout == state.layout and lane < state.layout.lanes and taken > newest.seq(lane):
        raise TargetContended(
            "a recovery of the build has begun and has not ended, and until then no task can commit; unless it still "
            f"runs, run 'table-backfill recover {state.plan.spec.target} --why REASON' again, with --epoch if it had "
            "one, then clear the task"
        )
    return newest


def _record(state: BuildState, lane: int, me: Attempt, move: Move, observed: Observed) -> Record:
    """The record of the lane's next barrier."""
    last = state.lanes[lane]
    positions = move.positions if move.positions is not None else state.positions
    changes = move.changes
    record = Record(
        build=state.plan.build,
        plan=state.plan.fingerprint,
        layout=state.layout,
        lane=lane,
        seq=state.seq(lane) + 1,
        generation=me.generation,
        attempt=me.name,
        prev=state.proven,
        tails=tuple(b.version if b is not None else -1 for b in state.lanes),
        event=move.event,
        phase=phase_after(state.phase, move.event),
        positions=positions,
        source=_stands(state, positions, observed.source),
        base=state.base,
        totals=last.totals if last is not None else Totals(),
        work=move.does,
        due=due_after(state, lane, observed, move),
        epochs=move.epochs,
        pending=observed.pending,
        announced=state.announced.version if state.announced is not None else None,
        news=state.news,
        others={n: b.tail for n, b in enumerate(state.lanes) if b is not None and n != lane},
        control=or_else(changes.control, observed.control),
        bound=or_else(changes.bound, state.bound),
        handoff=or_else(changes.handoff, state.handoff),
        certificate=or_else(changes.certificate, state.certificate),
        recovered=None if move.event is Event.CERTIFY else state.recovered,
        cost=or_else(changes.cost, state.cost),
        next_lanes=changes.next_lanes,
        decided_by=or_else(changes.decided_by, _laid_by(state)),
        waits=changes.waits,
    )
    return replace(record, progress=progress_with(state, record))


def _stands(state: BuildState, positions: tuple[Position, ...], source: SourceView) -> CommitId | None:
    """The newest commit of the source that ``positions`` depend on, as observed before any of its rows were read."""
    newest = newest_epoch(positions)
    epoch = state.plan.source.epoch if newest is None else newest
    return source.commit(epoch) or next((commit for commit in state.stands if commit.version == epoch), None)


def _observe(state: BuildState, goal: Goal, pace: Pace, looks: Looks) -> Asks[Observed]:
    """Read commands, files and source at one time. Raises Cancelled, or an error of the target or the source."""
    looked = yield from ReadCommands(files=False, spared=pace.spared)
    control, pace = _in_force(state, goal, looked), pace.measured(looked.now)
    if not goal.reads_source:
        nothing = SourceView(state.plan.source.table_id, state.reached, state.reached, Backlog())
        last = state.newest.record.pending if state.newest is not None else None
        return Observed(looked.now, nothing, control, looked.files, last, pace)
    check_rules(state.plan, state.phase, looked.properties)
    source = yield from ReadSourceLog(state.reached)
    looks = looks.found(source.head, state.reached, looked.now)
    check_source(state.plan, source, state.reached, state.stands)
    check_ahead(state.phase, source, state.reached)
    if goal.reads_files:
        # Only after the checks: if another table replaced the source, its pinned version cannot be opened.
        looked = yield from ReadCommands(files=True, spared=pace.spared)
        control = _in_force(state, goal, looked)
    pending = Pending(source.head, len(source.epochs), source.epochs.rows, looked.now)
    return Observed(looked.now, source, control, looked.files, pending, pace, looks)


def _in_force(state: BuildState, goal: Goal, looked: CommandsRead) -> Control:
    """The commands that the next step obeys. Raises Cancelled if they end the build."""
    control = obey(state.control, looked.commands)
    if isinstance(goal, ResumeGoal):
        control = resumed(state.control, looked.commands, goal.number)
    control = control.at(looked.now)
    over = control.cancelled or (state.phase is Phase.CANCELLED and not isinstance(goal, ResumeGoal))
    if over and not isinstance(goal, CancelGoal):
        raise Cancelled()
    return control


def decided(state: BuildState, lane: int, observed: Observed, step: Step, *, begins: bool) -> Asks[Move | Wait | Done]:
    """The move or wait that a step leads to, after everything it needs has been read."""
    holding, strategy = held(state, lane, observed), strategy_of(state.plan)
    match step:
        case Read():
            return (yield from strategy.read(state, lane, observed, step, holding, begins=begins))
        case Follow():
            move = yield from strategy.follow(state, lane, observed, step, holding, begins=begins)
            if isinstance(move, Move) and move.does.log_epochs and step.bound is not None:
                return replace(move, changes=Changes(bound=step.bound))
            return move
        case Certify() | Move(event=Event.SEAL) if observed.control.stopped and holding is not None:
            return holding.wait  # both read the whole target, or may
        case Certify(epoch, row_hash, kind, sample):
            no_rows = state.totals.records_without_row
            asked = VerifyTarget(epoch, state.proven, state.positions, row_hash, kind, no_rows, sample)
            certificate = yield from compared(state, asked)
            return Move(Event.CERTIFY, changes=Changes(certificate=certificate))
        case Move(event=Event.FINISH | Event.CANCEL):
            cost = yield from ReadCost()
            return replace(step, changes=replace(step.changes, cost=cost))
        case _:
            return step


def _renewed(wait: Wait, state: BuildState, lane: int, observed: Observed) -> Move | Wait:
    """``wait``, or a record with its reason. The record is written at once if the reason or a command is new, and from
    time to time, to show that the attempt is alive.
    """
    last = state.lanes[lane]
    if last is None or last.record.pending is None:
        return wait
    news = observed.control.number > last.record.control.number or (wait.say and last.record.waits is None)
    # A record from the future is no sign of life: a clock was set back, or that of another driver is ahead.
    if news or not 0 <= observed.now - last.record.pending.at < HEARTBEAT_MS:
        return Move(Event.MARK, changes=Changes(waits=wait.why[:300]))
    return wait
