"""The state of a build, folded from its committed barriers.

Everything here was read from the target's log. Work that is not committed yet belongs to the attempt. ``replay`` turns
barriers into state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_backfill.core.model.announcement import Announced
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Layout, Record, Tail
from airflow_backfill.core.splits.position import InEpoch, Position, applied_by, oldest_epoch, together
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.commit import Commit, CommitId
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.totals import Totals


@dataclass(frozen=True, slots=True)
class Barrier:
    """A committed record with its version, time and metrics."""

    version: int
    at: int
    record: Record
    rows: int

    @staticmethod
    def of(commit: Commit, record: Record) -> Barrier:
        return Barrier(commit.version, commit.timestamp, record, _rows(commit.metrics))

    @staticmethod
    def carried(newest: Record, lane: int) -> Barrier | None:
        """The last barrier of another lane, from its copy in a later record, with the fields that lanes share."""
        tail = newest.others.get(lane)
        if tail is None:
            return None
        record = replace(
            newest,
            lane=lane,
            seq=tail.seq,
            generation=tail.generation,
            attempt=tail.attempt,
            event=tail.event,
            control=tail.control,
            totals=tail.totals,
            work=Totals(),
            epochs=None,
            due=tail.due,
            next_lanes=tail.next_lanes,
            decided_by=tail.decided_by,
        )
        return Barrier(newest.tails[lane], tail.at, record, 0)

    @property
    def tail(self) -> Tail:
        """The copy that records of other lanes keep."""
        r = self.record
        own = (r.seq, r.generation, r.attempt, r.event, r.control, self.totals)
        return Tail(self.at, *own, r.due, r.next_lanes, r.decided_by)

    @property
    def totals(self) -> Totals:
        """The lane's totals, this commit included."""
        own = self.record.work
        match self.record.event, self.record.phase:
            case Event.FILES, _:
                own = own + Totals(snapshot_rows=self.rows)
            case Event.CHUNKS, _:
                own = own + Totals(log_rows=max(self.rows - own.snapshot_rows, 0))
            case Event.EPOCHS, Phase.UPSTREAM:
                own = own + Totals(upstream_rows=self.rows)
            case Event.EPOCHS, _:
                own = own + Totals(log_rows=self.rows)
        return self.record.totals + own


def _rows(metrics: Mapping[str, int]) -> int:
    merged = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    if any(name in metrics for name in merged):
        return sum(metrics.get(name, 0) for name in merged)
    return metrics.get("numOutputRows", 0)


@dataclass(frozen=True, slots=True)
class BuildState:
    plan: Plan
    layout: Layout
    lanes: tuple[Barrier | None, ...]
    """The last barrier of each lane of the layout."""
    newest: Barrier | None
    """The last barrier of the build, in any lane and layout."""
    base: Totals
    """Totals of all earlier layouts."""
    proven: int
    """All commits of the target up to this version were checked and are no foreign changes."""
    positions: tuple[Position, ...]
    announced: Announced | None = None
    """A chain's announced epochs whose data is not yet in the target; None if there are none."""

    @staticmethod
    def planned(plan: Plan) -> BuildState:
        """A build with only its plan committed."""
        return BuildState(
            plan=plan,
            layout=Layout(1, plan.lanes),
            lanes=(None,) * plan.lanes,
            newest=None,
            base=Totals(),
            proven=plan.target_version,
            positions=plan.splits.first(plan.source.epoch),
            announced=Announced(plan.source.epoch) if plan.strategy.announces else None,
        )

    @property
    def phase(self) -> Phase:
        return self.newest.record.phase if self.newest is not None else Phase.SNAPSHOT

    @property
    def applied(self) -> int | None:
        """The epoch at which the whole target stands, as a barrier claims; None before the snapshot is sealed."""
        return applied_by(self.positions) if self.sealed and self.phase is not Phase.SNAPSHOT else None

    @property
    def reached(self) -> int:
        """The log is needed after this epoch: the oldest one at which a split stands, else the pinned epoch."""
        epoch, splits = self.plan.source.epoch, self.plan.splits
        # A split that appears during the snapshot stands at the planned epoch, so the log is needed from there.
        stand = self.sealed and not (splits.grows and self.phase is Phase.SNAPSHOT)
        applied = applied_by(self.positions) if stand else None
        return oldest_epoch(self.positions, epoch) if applied is None else applied

    @property
    def part(self) -> InEpoch | None:
        """The position in a partly applied epoch; None if there is none."""
        return self.positions[0].part

    @property
    def rearranging(self) -> bool:
        """Whether epochs are announced before the target has their data."""
        return self.announced is not None and self.announced.open

    @property
    def news(self) -> Announced | None:
        """The lane of announcements, to be repeated in a record; None before its first commit."""
        return self.announced if self.announced is not None and self.announced.version >= 0 else None

    @property
    def seen(self) -> int | None:
        """The newest epoch that the target shows to readers that do not wait for data."""
        if self.announced is None:
            return self.applied
        # Not ``applied``: a build that was cancelled and resumed claims no epoch before it is sealed again.
        stands = applied_by(self.positions) if self.sealed else None
        return max(self.announced.seen, -1 if stands is None else stands)

    @property
    def sealed(self) -> bool:
        """Whether no file and no range of the snapshot is left to read."""
        return together(self.positions)

    @property
    def sealable(self) -> bool:
        """Whether ``sealed``, and the position of every new split is known."""
        return self.sealed and not any(position.unknown for position in self.positions)

    @property
    def read(self) -> bool:
        """Whether all splits are read, so that only the source's log is left."""
        return self.plan.splits.read(self.positions)

    @property
    def unread(self) -> set[int]:
        """The lanes with splits left to read."""
        return {n % self.layout.lanes for n, position in enumerate(self.positions) if not position.read}

    @property
    def begun(self) -> bool:
        """Whether the target has anything of a split."""
        return any(position.begun for position in self.positions)

    @property
    def closed(self) -> bool:
        return all(b is not None and b.record.closed for b in self.lanes)

    @property
    def closing(self) -> bool:
        """Whether an attempt has decided to end the layout: its first lane is closed."""
        return self.lanes[0] is not None and self.lanes[0].record.closed

    @property
    def control(self) -> Control:
        """The commands that committed barriers have acknowledged."""
        return max((b.record.control for b in self.known), key=lambda c: c.number, default=Control())

    @property
    def totals(self) -> Totals:
        return sum((b.totals for b in self.lanes if b is not None), self.base)

    @property
    def bound(self) -> Bound | None:
        return self.newest.record.bound if self.newest is not None else None

    @property
    def handoff(self) -> int | None:
        return self.newest.record.handoff if self.newest is not None else None

    @property
    def at_handoff(self) -> bool:
        """Whether the whole target stands at the hand-off epoch, and all announced epochs are applied."""
        return self.handoff is not None and self.applied == self.handoff and not self.rearranging

    @property
    def certificate(self) -> Certificate | None:
        return self.newest.record.certificate if self.newest is not None else None

    @property
    def recovered(self) -> int | None:
        """The epoch that an operator named in a recovery, which only a proof may finish."""
        return self.newest.record.recovered if self.newest is not None else None

    @property
    def cost(self) -> Cost | None:
        """What the build had cost when it was finished or cancelled."""
        return self.newest.record.cost if self.newest is not None else None

    @property
    def known(self) -> tuple[Barrier, ...]:
        """The last barrier of each lane, and the newest of all."""
        return tuple(b for b in (self.newest, *self.lanes) if b is not None)

    @property
    def stands(self) -> tuple[CommitId, ...]:
        """The commits of the source that the committed work depends on, as far as records name them. The source of the
        next round must still have these commits.
        """
        found = [b.record.source for b in self.known] + [self.announced.source if self.announced else None]
        planned = self.plan.source
        if not any(found) and planned.digest is not None:
            return (CommitId(planned.epoch, planned.digest),)
        return tuple({commit for commit in found if commit is not None})

    def generation(self, lane: int) -> int:
        barrier = self.lanes[lane]
        return barrier.record.generation if barrier is not None else 0

    def seq(self, lane: int) -> int:
        barrier = self.lanes[lane]
        return barrier.record.seq if barrier is not None else 0

    def owns(self, lane: int, split: int) -> bool:
        """Whether the lane owns the split: lanes get splits in turn."""
        return split % self.layout.lanes == lane


def arrived(state: BuildState) -> bool:
    """Whether all announced epochs are applied, or those up to the hand-off epoch if that is earlier."""
    if state.announced is None or state.applied is None:
        return state.announced is None
    end = state.announced.seen if state.handoff is None else min(state.announced.seen, state.handoff)
    return state.applied >= end
