"""Recovers a build whose records cannot be read or no longer match the rows.

Records disappear if the log is cleaned up too early. They are wrong after another writer has changed or restored the
target. There are two ways out, each of them one barrier:

* A rewind (``rewind``). The user has restored the target to an older version, and nothing has changed rows since.
* A recovery to an epoch. The plan, the rows and the transaction ids (which Delta keeps in checkpoints) are left, and
  the user names the epoch of the rows. The barrier puts the build into catch-up with this hand-off epoch, and only a
  verification can finish it. Rows that differ, even most of an unfinished snapshot, are repaired before. Older records
  are used only for what does not depend on rows: the newest attempt, the commands in force, the totals.

A cancel is lifted. Each lane gets a fence first, so that no older attempt commits. The barrier begins a layout of one
lane, behind every layout that has a fence: a recovery that was killed, or is late, leaves none in its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_backfill.core.attempts.rewind import RESTORE, rewound, standing
from airflow_backfill.core.errors import (
    Fenced,
    NotAllowedNow,
    NotPlanned,
    RecordInvalid,
    TargetContended,
    TargetDiverged,
)
from airflow_backfill.core.model.fence import Fence
from airflow_backfill.core.model.plan import LANE, Plan
from airflow_backfill.core.model.record import Layout, Record, app_id
from airflow_backfill.core.reports.progress import CATCH_UP
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.state.effect import (
    Asks,
    CommitRecord,
    CopyPlan,
    Nothing,
    ReadCommands,
    ReadCommit,
    ReadHead,
    ReadPlan,
    ReadSourceLog,
    ReadTransactions,
    Transactions,
)
from airflow_backfill.core.state.load import Remains, load, plan_of, remains
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.control import Control, obey
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.totals import Totals

TRIES = 5


def recover(me: Attempt, epoch: int | None = None) -> Asks[BuildState]:
    """The state after the recovery to ``epoch``, or after a rewind if that is None: to the version that a RESTORE
    names, or to the newest one if its records are sound. Raises NotAllowedNow if no verification could ever succeed,
    or, of a rewind, if the target was not restored.

    It always writes, even if the build is sound: an older recovery that sleeps may still write its fences, and only a
    newer record in a layout behind them keeps them out of the way.
    """
    for _ in range(TRIES):
        found = yield from ReadTransactions()
        build = yield from _build(found)
        plan = yield from plan_of(build)
        _check_table(plan, found)
        source = None if epoch is None else (yield from _source(plan, epoch)).commit(epoch)
        left = yield from remains(build, plan.fingerprint)
        if left.of_another_plan and not left.lanes:
            raise RecordInvalid(
                f"the copy of the plan beside the target is not the plan of build {build}; delete the copy, "
                "because the log has the plan"
            )
        _check_newest(me, left)
        place = _place(found.versions, plan, left)
        if epoch is None:
            yield from standing(build)  # refused before a fence ends anybody's work
        head = yield from ReadHead()
        fenced = yield from _fenced(place, build, me, head)
        if not fenced:
            continue
        record = _record(plan, place, me, left, prev=head)
        if epoch is None:
            record = yield from rewound(record)
        else:
            record = _stands_at(epoch, record, plan, source=source, base=left.totals)
        record = replace(record, control=(yield from _in_force(left)))
        yield from CopyPlan(plan)
        written = yield from CommitRecord(record, Nothing())
        try:
            state = yield from load(build)
        except TargetDiverged:
            continue  # another writer came first
        if state.newest is not None and state.newest.record.attempt == me.name:
            return state
        _check_newest(me, Remains(lanes=state.known))
        if written.error is not None:
            raise written.error
    raise TargetContended(f"other commits came first in each of {TRIES} tries; try again", tries=TRIES)


def _check_table(plan: Plan, found: Transactions) -> None:
    if found.table_id != plan.target_id:
        raise NotAllowedNow(
            "the target is another table than the planned one (other table id); restore it, or plan again",
            planned=plan.target_id,
            found=found.table_id,
        )


def _source(plan: Plan, epoch: int) -> Asks[SourceView]:
    """The source after ``epoch``. Raises NotAllowedNow if no verification could ever succeed."""
    if not plan.splits.recoverable:
        raise NotAllowedNow(
            "only the records say where a topic's history ends and its landing table begins, so no epoch replaces "
            f"them; {RESTORE}, or plan the build again with on_existing='restart'"
        )
    if epoch < plan.source.epoch:
        raise NotAllowedNow(
            f"--epoch {epoch} is before the snapshot's epoch {plan.source.epoch}; name that epoch or a later one"
        )
    source = yield from ReadSourceLog(epoch)
    if source.table_id == plan.source.table_id and epoch > source.head:
        raise NotAllowedNow(
            f"--epoch {epoch} is after the source's newest epoch {source.head}; name a version of the source (its "
            "DESCRIBE HISTORY has them), not one of the target"
        )
    # The verification compares all rows, so the commits named by earlier records are not checked.
    check_source(plan, source, epoch, ())
    return source


def _check_newest(me: Attempt, left: Remains) -> None:
    last = max((barrier.record for barrier in left.lanes), key=lambda record: record.generation, default=None)
    if last is not None and last.generation > me.generation:
        raise Fenced(f"the newer attempt {last.attempt} has taken over", attempt=me.name, by=last.attempt)


def _in_force(left: Remains) -> Asks[Control]:
    """The commands in force without a cancel, which would end the recovered build. If the folder cannot be read, the
    commands that a record acknowledged.
    """
    try:
        looked = yield from ReadCommands(files=False)
        commands = looked.commands
    except RecordInvalid:
        commands = ()
    return replace(obey(left.control, commands), cancelled=False, drop=False)


@dataclass(frozen=True, slots=True)
class _Place:
    """The layout of the recovery's barrier, and which lanes (layout, number) need a fence before."""

    layout: int
    fences: Mapping[tuple[int, int], int]
    """The transaction number of each fence."""


def _build(found: Transactions) -> Asks[str]:
    """The build that the target's log has planned; if transaction ids have expired, that of the newest record."""
    builds = [name.removesuffix(f"/{LANE}") for name in found.versions if name.endswith(f"/{LANE}")]
    if len(builds) > 1:  # a planner was late, whose table was dropped here
        plans = []
        for build in builds:
            plans.append((yield from ReadPlan(build)))
        builds = [plan.build for plan in plans if plan is not None and plan.target_id == found.table_id]
    if not builds:
        builds = list({barrier.record.build for barrier in (yield from remains()).lanes})
    if len(builds) != 1:
        raise NotPlanned(
            f"the target's log has the plans of {len(builds)} builds, but a recovery needs exactly one: without a "
            "plan, there is nothing to recover; clear the plan task",
            builds=sorted(builds),
        )
    return builds[0]


def _place(versions: Mapping[str, int], plan: Plan, left: Remains) -> _Place:
    """A new layout, after the newest one and after the one that may be about to open. Lanes that may exist without a
    record count as lanes.
    """
    records = [barrier.record for barrier in left.lanes]
    written = {(record.layout.number, record.lane): record.seq for record in records}
    began = _lanes_in(versions, plan.build) | written.keys()
    newest = max((layout for layout, _ in began), default=1)
    here = [record for record in records if record.layout.number == newest]
    count = max([1, *(lane + 1 for layout, lane in began if layout == newest), *(r.layout.lanes for r in here)])
    count = max(count, plan.lanes) if newest == 1 else count
    seqs = {
        lane: max(versions.get(app_id(plan.build, *lane), 0), written.get(lane, 0)) + 1
        for lane in began | {(newest, n) for n in range(count)}
    }
    # Older layouts get fences too: the newest one may be an incomplete recovery that wrote only fences.
    older = {(r.layout.number, n) for r in records for n in range(r.layout.lanes)} - seqs.keys()
    coming = max(count, *(record.next_lanes or 1 for record in here), 1)
    return _Place(newest + 2, {**seqs, **dict.fromkeys(older, 1), **{(newest + 1, n): 1 for n in range(coming)}})


def _lanes_in(versions: Mapping[str, int], build: str) -> set[tuple[int, int]]:
    """Layout and number of each lane among the transaction ids."""
    ids = (name.split("/") for name in versions)
    lanes = (parts[1:] for parts in ids if parts[0] == build and len(parts) == 3)
    return {(int(layout), int(lane)) for layout, lane in lanes if layout.isdigit() and lane.isdigit()}


def _fenced(place: _Place, build: str, me: Attempt, head: int) -> Asks[bool]:
    """Whether every old lane has its fence, so that no old attempt can commit."""
    fences = [Fence(build, *lane, seq, me.name) for lane, seq in place.fences.items()]
    for fence in fences:
        yield from CommitRecord(fence, Nothing())
    there = yield from ReadHead()
    landed: set[str] = set()
    for version in range(head + 1, there + 1):
        commit = yield from ReadCommit(version)
        if commit.user_metadata == fences[0].encode():
            landed |= commit.txns.keys()
    return landed >= {fence.app_id for fence in fences}


def _stands_at(epoch: int, record: Record, plan: Plan, source: CommitId | None, base: Totals) -> Record:
    """The record of a recovery to ``epoch``."""
    return replace(
        record,
        event=Event.RECOVER,
        phase=Phase.CATCH_UP,
        positions=(Consumed(epoch),) * len(plan.splits),
        base=base,
        source=source,
        handoff=epoch,
        recovered=epoch,
        progress=max(CATCH_UP[1], record.progress or 0),
    )


def _record(plan: Plan, place: _Place, me: Attempt, left: Remains, prev: int) -> Record:
    """What both ways have in common."""
    return Record(
        build=plan.build,
        plan=plan.fingerprint,
        layout=Layout(place.layout, 1),
        lane=0,
        seq=1,
        generation=me.generation,
        attempt=me.name,
        prev=prev,
        tails=(-1,),
        event=Event.REWIND,
        phase=Phase.SNAPSHOT,
        positions=(),
        progress=max((barrier.record.progress or 0 for barrier in left.lanes), default=0),
    )
