"""The tasks of a build: for each, when its goal is reached, and the next step towards it.

A goal decides from committed state and one observation, without I/O. The protocol around it (claims, read-back,
commands, throttle) is in ``attempt``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from airflow_backfill.core.errors import Cancelled, NotAllowedNow, SourceReplaced, VerificationFailed
from airflow_backfill.core.gates.max_lag import MaxLag, within
from airflow_backfill.core.reports.due import due
from airflow_backfill.core.state.effect import RewriteKeys
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Certify, Changes, Done, Follow, Move, Observed, Read, Step, Wait
from airflow_backfill.core.strategies.chain import announceable
from airflow_backfill.core.strategies.strategy import check_lanes
from airflow_backfill.core.values.bound import Bound, check_converging
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash

POLL_MS = 1_000
"""Milliseconds between looks if there is nothing to do."""
THROTTLED = 12
"""This many throttled rounds count as one round."""

_ORDER = (Phase.SNAPSHOT, Phase.CONSUME_LOG, Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM)


class Goal(Protocol):
    """The task works in lane ``lane`` of ``lanes``: 0 of 1, except in the snapshot."""

    @property
    def lane(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    @property
    def reads_source(self) -> bool:
        """Whether every step reads the source's log."""

    @property
    def reads_files(self) -> bool:
        """Whether the pinned snapshot's files are needed."""

    @property
    def announces(self) -> bool:
        """Whether a chain announces epochs while the task works."""

    def check(self, state: BuildState) -> None:
        """Raise if the phase does not allow the task. Nothing has been claimed or written then."""

    def done(self, state: BuildState) -> bool:
        """Whether the goal is already a committed fact. Nothing is claimed or written then."""

    def step(self, state: BuildState, observed: Observed) -> Step:
        """The next step. Requires that ``check`` passed and ``done`` is false."""


class _SingleLane:
    __slots__ = ()
    lane: ClassVar[int] = 0
    lanes: ClassVar[int] = 1
    reads_source: ClassVar[bool] = True
    reads_files: ClassVar[bool] = False
    announces: ClassVar[bool] = False


class _Bookkeeping(_SingleLane):
    """Writes no row. Possible even if the source cannot be read."""

    __slots__ = ()
    reads_source: ClassVar[bool] = False

    def check(self, state: BuildState) -> None:
        """Always possible."""


@dataclass(frozen=True, slots=True)
class SnapshotGoal:
    """Read the splits of one lane: files, ranges or partitions."""

    lane: int
    lanes: int
    size: RoundSize
    reads_source: ClassVar[bool] = True
    reads_files: ClassVar[bool] = True
    announces: ClassVar[bool] = True

    def check(self, state: BuildState) -> None:
        _require(state, Phase.SNAPSHOT)
        check_lanes(state.plan.spec, self.lanes)

    def done(self, state: BuildState) -> bool:
        return _past(state, Phase.SNAPSHOT) or state.read

    def step(self, state: BuildState, observed: Observed) -> Step:
        mine = (position for n, position in enumerate(state.positions) if state.owns(self.lane, n))
        return Done() if all(position.read for position in mine) else Read(self.size)


@dataclass(frozen=True, slots=True)
class ConsumeLogGoal(_SingleLane):
    """Seal the snapshot, then apply the log until at most ``max_lag`` is pending."""

    size: RoundSize
    max_lag: MaxLag
    patience: int
    announces: ClassVar[bool] = True

    def check(self, state: BuildState) -> None:
        _require(state, Phase.SNAPSHOT, Phase.CONSUME_LOG)
        if not state.read and state.phase is Phase.SNAPSHOT:
            do = "clear the snapshot task with the tasks after it"
            raise NotAllowedNow(f"the snapshot is not read completely: {do}", phase=state.phase.value)

    def done(self, state: BuildState) -> bool:
        return _past(state, Phase.CONSUME_LOG)

    def step(self, state: BuildState, observed: Observed) -> Step:
        if state.phase is Phase.SNAPSHOT:
            return _seal(state, observed) if state.sealable else Read(self.size)
        if not within(self.max_lag, state, observed.source, observed.now, observed.looks):
            return _apply_log(state, observed, self.size, self.patience)
        return _next_epochs(state, observed, self.size) if _announcing(state, observed) else Done()


@dataclass(frozen=True, slots=True)
class CatchUpGoal(_SingleLane):
    """Apply the log until at most ``max_lag`` is pending, pin the hand-off epoch, and stop exactly there."""

    size: RoundSize
    max_lag: MaxLag
    patience: int
    announces: ClassVar[bool] = True

    def check(self, state: BuildState) -> None:
        _require(state, Phase.CONSUME_LOG, Phase.CATCH_UP)

    def done(self, state: BuildState) -> bool:
        return (state.phase is Phase.CATCH_UP and state.at_handoff) or _past(state, Phase.CATCH_UP)

    def step(self, state: BuildState, observed: Observed) -> Step:
        if state.phase is Phase.CATCH_UP:
            return _next_epochs(state, observed, self.size)
        if within(self.max_lag, state, observed.source, observed.now, observed.looks):
            return Move(Event.PIN, changes=Changes(handoff=observed.source.head))
        return _apply_log(state, observed, self.size, self.patience)


@dataclass(frozen=True, slots=True)
class VerifyGoal(_SingleLane):
    """Prove the target equal to the transformed source at the hand-off epoch, after a recovery by a full proof."""

    row_hash: RowHash = RowHash.TYPED
    full: bool = False
    """Whether the proof is full even if the plan says that it is incremental."""
    sample: float = 0.0
    """The share of the source that an incremental proof reads again, or that a sampled one compares, from 0 to 1."""

    def check(self, state: BuildState) -> None:
        kind = self._kind(state)
        if kind is ProofKind.INCREMENTAL and self.row_hash is not RowHash.TYPED:
            raise invalid(
                "row_hash", self.row_hash.value, "an incremental proof adds up typed hashes; ask for a full proof"
            )
        if self.sample and kind is ProofKind.FULL:
            raise invalid("sample", self.sample, "a full proof reads all of the source again; leave the sample out")
        _require(state, Phase.CATCH_UP)
        _require_arrived(state)

    def done(self, state: BuildState) -> bool:
        return _past(state, Phase.CATCH_UP) or state.certificate is not None

    def step(self, state: BuildState, observed: Observed) -> Step:
        assert state.handoff is not None
        # Digests that were added up before a recovery may be of a history that the source no longer has.
        kind = self._kind(state) if state.recovered is None else ProofKind.FULL
        return Certify(state.handoff, self.row_hash, kind, self.sample)

    def _kind(self, state: BuildState) -> ProofKind:
        return ProofKind.FULL if self.full else state.plan.spec.proof


@dataclass(frozen=True, slots=True)
class RepairGoal(_SingleLane):
    """Make the target equal to the transformed source at the hand-off epoch; a verification must follow."""

    def check(self, state: BuildState) -> None:
        plan, over = state.plan, _past(state, Phase.CATCH_UP)
        if not plan.spec.key or (over and not plan.splits.recoverable):
            which = "without a key" if not plan.spec.key else "of a topic, after the hand-off,"
            raise NotAllowedNow(f"{which} no row can be repaired: plan again with on_existing='restart'")
        if over:
            raise NotAllowedNow(
                f"the build is handed over: run 'table-backfill recover {plan.spec.target} --epoch N --why REASON' "
                f"first, with the epoch that the rows shall equal (now: {state.applied})"
            )
        _require(state, Phase.CATCH_UP)
        _require_arrived(state)

    def done(self, state: BuildState) -> bool:
        repaired = state.newest is not None and state.newest.record.event is Event.REPAIR
        return _past(state, Phase.CATCH_UP) or state.certificate is not None or repaired

    def step(self, state: BuildState, observed: Observed) -> Step:
        assert state.handoff is not None
        return Move(Event.REPAIR, RewriteKeys(state.handoff))


@dataclass(frozen=True, slots=True)
class FinishGoal(_Bookkeeping):
    """Commit the hand-off. Requires a certificate, unless the user switched the verification off and has not named the
    epoch in a recovery.
    """

    verified: bool = True

    def check(self, state: BuildState) -> None:
        _require(state, Phase.CATCH_UP, Phase.FINISHED)
        if self.verified and state.certificate is None:
            raise VerificationFailed("the target is not proven equal to the source: clear the verify task first")
        if state.recovered is not None:
            raise VerificationFailed(
                f"the target's epoch {state.recovered} was named in a recovery, so only a proof may finish the build: "
                "set verify=True in the DAG and run it again",
                epoch=state.recovered,
            )
        _require_arrived(state)

    def done(self, state: BuildState) -> bool:
        return _past(state, Phase.CATCH_UP)

    def step(self, state: BuildState, observed: Observed) -> Step:
        return Move(Event.FINISH)


@dataclass(frozen=True, slots=True)
class UpstreamGoal(_SingleLane):
    """Follow the source after the hand-off: through epoch ``upto``, or until a time (milliseconds since 1970)."""

    size: RoundSize
    upto: int | None = None
    until: int = 0

    def check(self, state: BuildState) -> None:
        _require(state, Phase.FINISHED, Phase.UPSTREAM)

    def done(self, state: BuildState) -> bool:
        return False

    def step(self, state: BuildState, observed: Observed) -> Step:
        if self.upto is None and observed.now >= self.until:
            return Done()
        if _pending(state, observed, self.upto):
            return Follow(self.size, self.upto)
        return Done() if self.upto is not None else Wait(observed.now + POLL_MS, "no new epoch of the source")


@dataclass(frozen=True, slots=True)
class CancelGoal(_Bookkeeping):
    """End the build."""

    def check(self, state: BuildState) -> None:
        if _past(state, Phase.CATCH_UP):
            raise NotAllowedNow("the build is finished: there is nothing to cancel", phase=state.phase.value)

    def done(self, state: BuildState) -> bool:
        return state.phase is Phase.CANCELLED

    def step(self, state: BuildState, observed: Observed) -> Step:
        return Move(Event.CANCEL)


@dataclass(frozen=True, slots=True)
class TakeOverGoal(_Bookkeeping):
    """Fence every attempt at the build in any phase; do nothing else."""

    def done(self, state: BuildState) -> bool:
        return False

    def step(self, state: BuildState, observed: Observed) -> Step:
        return Done()


@dataclass(frozen=True, slots=True)
class ResumeGoal(_Bookkeeping):
    """Continue a cancelled build from its last commit. ``number``: the newest command when the build was planned again.
    A cancel up to this number is lifted, even if no barrier has acknowledged it. A later cancel stays in force.
    """

    number: int

    def done(self, state: BuildState) -> bool:
        known = state.control.number >= self.number and not state.control.cancelled
        return known and state.phase is not Phase.CANCELLED

    def step(self, state: BuildState, observed: Observed) -> Step:
        control = replace(observed.control, cancelled=False, drop=False)
        if state.phase is not Phase.CANCELLED:
            return Move(Event.MARK, changes=Changes(control=control))
        return Move(
            Event.RESUME, changes=Changes(control=control, bound=None, handoff=None, certificate=None, cost=None)
        )


def _past(state: BuildState, phase: Phase) -> bool:
    if state.phase is Phase.CANCELLED:
        return False
    return _ORDER.index(state.phase) > _ORDER.index(phase)


def _require(state: BuildState, *wanted: Phase) -> None:
    if state.phase is Phase.CANCELLED:
        raise Cancelled()
    if state.phase not in wanted:
        names, found = " or ".join(p.value for p in wanted), state.phase.value
        do = f"run the {due(state)[0]} task and the tasks after it first"
        raise NotAllowedNow(f"this needs a build in {names}, but it is in {found}: {do}", phase=found)


def _require_arrived(state: BuildState) -> None:
    if state.rearranging:
        raise NotAllowedNow(
            "not all announced epochs are applied: clear the catch_up task first", phase=state.phase.value
        )
    if state.applied != state.handoff:
        raise NotAllowedNow(
            f"the target is at epoch {state.applied}, the hand-off at {state.handoff}: clear the catch_up task first",
            phase=state.phase.value,
        )


def _seal(state: BuildState, observed: Observed) -> Step:
    return Move(Event.SEAL, changes=Changes(bound=Bound.initial(len(observed.source.pending(state.reached)))))


def _apply_log(state: BuildState, observed: Observed, size: RoundSize, patience: int) -> Step:
    applied = state.applied
    assert applied is not None and state.bound is not None
    pending = len(observed.source.pending(applied))
    # Throttled rounds last only seconds: one busy minute must not count as not converging.
    rounds = patience * THROTTLED if observed.control.limited else patience
    check_converging(state.bound, pending, rounds, rate_limited=observed.control.limited)
    return _next_epochs(state, observed, size, bound=state.bound.measured(pending))


def _announcing(state: BuildState, observed: Observed) -> bool:
    """Whether a chain within its bound continues because of its announcements: until all is announced that the newest
    barrier observed, so that an application that starts for an announcement makes it; then until one round is applied
    (a busy source does not keep it running) or, if the source is idle, until the announcements end.
    """
    lane, newest = state.announced, state.newest
    if lane is None or not lane.open or newest is None:
        return False
    goes_on = lane.seen == announceable(lane, observed.source, state.handoff) or newest.record.event is not Event.EPOCHS
    return _unannounced(state, observed) or (goes_on and not observed.control.stopped)


def _unannounced(state: BuildState, observed: Observed) -> bool:
    """Whether a chain has yet to announce an epoch that the newest barrier observed."""
    lane, newest = state.announced, state.newest
    if lane is None or not lane.open or newest is None or newest.record.pending is None:
        return False
    return lane.seen < min(newest.record.pending.head, announceable(lane, observed.source, state.handoff))


def _next_epochs(state: BuildState, observed: Observed, size: RoundSize, *, bound: Bound | None = None) -> Step:
    """The next round of the log, of announced epochs while a chain announces: first of all that the source had."""
    limits = [epoch for epoch in (state.handoff, state.seen if state.rearranging else None) if epoch is not None]
    upto = min(limits, default=None)
    begins = state.newest is not None and state.newest.record.event is not Event.EPOCHS
    if _pending(state, observed, upto) and not (begins and _unannounced(state, observed)):
        return Follow(size, upto, bound)
    if state.rearranging:
        return Wait(observed.now + POLL_MS, "epochs are announced before they are applied", for_commit=True)
    now = (
        f"; or hand over at epoch {state.applied}: run 'table-backfill recover {state.plan.spec.target} --epoch "
        f"{state.applied} --why REASON', then clear the failed task and the tasks after it"
    )
    raise SourceReplaced(
        f"the source is at epoch {observed.source.head}, before the pinned hand-off epoch {state.handoff}: it was "
        "restored to an earlier state, for example from a backup; clear the task when the source has that epoch again"
        f"{now if state.plan.splits.recoverable else ''}",
        head=observed.source.head,
        applied=state.applied,
        handoff=state.handoff,
    )


def _pending(state: BuildState, observed: Observed, upto: int | None) -> bool:
    """Whether an epoch of the log is pending, up to ``upto`` if given."""
    assert state.applied is not None
    return bool(observed.source.pending(state.applied)) and (upto is None or upto > state.applied)
