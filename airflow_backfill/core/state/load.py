"""Reads a build's state from the target's log, without opening the table.

``load`` reads commits from the newest backwards until it finds the last barrier of every lane, and the last
announcement of a chain. Each of them names the versions of the others, so that ``load`` can skip long runs of one kind.
``catch_up`` reads later commits. Both check every commit that is not proven yet, and raise TargetDiverged for a foreign
change of rows: a barrier that was committed after a RESTORE must not count. ``told`` checks nothing, and costs the same
for any number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from airflow_backfill.core.errors import Fenced, HistoryLost, NotPlanned, RecordInvalid
from airflow_backfill.core.model.announcement import Announced, Announcement, announcement
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.plan import app_id as plan_app_id
from airflow_backfill.core.model.record import Record, barrier_record, generation_in
from airflow_backfill.core.state.effect import Asks, ReadCommit, ReadHead, ReadPlan
from airflow_backfill.core.state.replay import announce, apply, from_last
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.target_table.foreign_commits import check_commit, check_not_put_back, check_table
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.totals import Totals

_Walked = tuple[Commit, Record | None]
"""A commit that was read on the way to the last barriers, and its record if it is one itself."""
_Found = TypeVar("_Found", Record, Announcement)


def load(build: str | None = None, at: int | None = None) -> Asks[BuildState]:
    """The state of the target's build; NotPlanned if there is none, or if it is not ``build`` (if given). With ``at``,
    the state at that version of the target.

    HistoryLost if log clean-up has deleted the last barriers, and also the table's first commits.
    """
    return (yield from _loaded(build, proven=True, at=at))


def told(build: str | None = None) -> Asks[BuildState]:
    """The state by the newest record alone, to be shown: other lanes stand where its writer saw them last."""
    return (yield from _loaded(build, proven=False))


def written_on(build: str | None = None) -> Asks[BuildState]:
    """The same of a target whose rows others change since: TargetDiverged only if it was replaced or restored."""
    return (yield from _loaded(build, proven=False, check=check_table))


def _loaded(
    build: str | None,
    *,
    proven: bool,
    at: int | None = None,
    check: Callable[[Plan, Commit, Record | None], None] = check_commit,
) -> Asks[BuildState]:
    head = (yield from ReadHead()) if at is None else at
    walked: list[_Walked] = []
    strangers: list[str] = []
    newest: Barrier | None = None
    news: tuple[int, Announcement] | None = None
    version = head
    while newest is None:
        commit = yield from _older(version, build, strangers)
        record = yield from _planned_here(barrier_record(commit), strangers)
        if record is not None:
            newest = Barrier.of(commit, record)
        elif (planned := _planned_build(commit)) is not None and (yield from _known(planned, strangers)):
            return (yield from _just_planned(planned, build, walked, head))
        elif news is None and (found := (yield from _planned_here(announcement(commit), strangers))) is not None:
            news = (version, found)
        elif news is not None and version == news[1].newest:
            raise RecordInvalid(f"version {version} is not the barrier that a later announcement names")
        walked.append((commit, record))
        version -= 1
        if news is not None and 0 <= news[1].newest <= version <= news[1].prev:
            version = news[1].newest
    plan = yield from plan_of(newest.record.build, build)
    carried = () if proven else _carried(newest)
    lanes = carried or (yield from _lanes(newest, walked, version))
    announced = yield from _announced(plan, newest, walked)
    state = from_last(plan, lanes, head, announced)
    for commit, record in reversed(walked):
        check(plan, commit, record)
    return state


def catch_up(state: BuildState) -> Asks[BuildState]:
    """``state`` with all later commits. Raises TargetDiverged at the first foreign change, or if commits are gone, and
    Fenced where the target was dropped and holds another build: a late commit of this one may be in the log of that
    table.
    """
    head = yield from ReadHead()
    if head < state.proven:
        yield from _check_not_dropped(state, (yield from ReadCommit(head)))
    check_not_put_back(state.proven, head)
    for version in range(state.proven + 1, head + 1):
        commit = yield from ReadCommit(version)
        record = barrier_record(commit, state.plan.build)
        if record is None:
            yield from _check_not_dropped(state, commit)
        check_commit(state.plan, commit, record)
        if record is not None:
            state = apply(state, Barrier.of(commit, record))
        elif (news := announcement(commit, state.plan.build)) is not None:
            state = announce(state, version, news)
        state = replace(state, proven=version)
    return state


def highest_generation() -> Asks[int]:
    """The highest generation in the newest records, including damaged ones: a new attempt must be above it."""
    left = yield from remains()
    return max(left.generation, *(barrier.record.generation for barrier in left.lanes), 0)


@dataclass(frozen=True, slots=True)
class Remains:
    """The readable part of a damaged build."""

    generation: int = 0
    """The highest generation in newer, damaged records."""
    lanes: tuple[Barrier, ...] = ()
    """The last readable barriers of one layout."""
    of_another_plan: bool = False
    """Whether a newer record names another plan."""

    @property
    def control(self) -> Control:
        return max((b.record.control for b in self.lanes), key=lambda c: c.number, default=Control())

    @property
    def totals(self) -> Totals:
        base = self.lanes[0].record.base if self.lanes else Totals()
        return sum((barrier.totals for barrier in self.lanes), base)


def remains(build: str | None = None, plan: str | None = None) -> Asks[Remains]:
    """The newest readable barrier of ``build``, or of the one that was planned here, and those of the other lanes. With
    ``plan``, a record that names another fingerprint counts as damaged.
    """
    head = yield from ReadHead()
    highest, strangers, misplanned = 0, list[str](), False
    for version in range(head, -1, -1):
        try:
            commit = yield from ReadCommit(version)
            highest = max(highest, generation_in(commit))
            record = barrier_record(commit, build)
        except HistoryLost:
            break
        except RecordInvalid:
            continue
        if build is None:
            record = yield from _planned_here(record, strangers)
        if record is None:
            continue
        if plan not in (None, record.plan):
            misplanned = True
            continue
        newest = Barrier.of(commit, record)
        try:
            lanes = yield from _lanes(newest, [], version - 1)
        except (HistoryLost, RecordInvalid):
            lanes = (newest, *(Barrier.carried(record, lane) for lane in record.others))
        readable = (one for one in lanes if one is not None and plan in (None, one.record.plan))
        return Remains(highest, tuple(readable), misplanned)
    return Remains(highest, of_another_plan=misplanned)


def _planned_build(commit: Commit) -> str | None:
    for name in commit.txns:
        build, _, lane = name.partition("/")
        if name == plan_app_id(build) and lane:
            return build
    return None


def plan_of(build: str, wanted: str | None = None) -> Asks[Plan]:
    """The plan of the target's build; NotPlanned if that is not ``wanted`` (if given), RecordInvalid without a plan."""
    if wanted is not None and build != wanted:
        raise NotPlanned(f"the target belongs to build {build}, not to {wanted}", found=build, wanted=wanted)
    plan = yield from ReadPlan(build)
    if plan is None:
        raise _lacks_plan(build)
    return plan


def _lacks_plan(build: str) -> RecordInvalid:
    return RecordInvalid(
        f"the plan of build {build} is neither in the target's log nor beside the target, so the build cannot go on; "
        "plan it again with on_existing='restart'",
        build=build,
    )


def _older(version: int, wanted: str | None, strangers: list[str]) -> Asks[Commit]:
    """The commit; an error if there is none, which names the build whose plan is missing, if that is the cause."""
    try:
        if version < 0:
            raise NotPlanned("no barrier of a table backfill is in the target's log")
        return (yield from ReadCommit(version))
    except (HistoryLost, NotPlanned):
        if strangers and wanted in (None, *strangers):
            raise _lacks_plan(strangers[0]) from None
        raise


def _planned_here(found: _Found | None, strangers: list[str]) -> Asks[_Found | None]:
    """``found`` if this table has a plan of its build; else None, and the build is added to ``strangers``."""
    return found if found is not None and (yield from _known(found.build, strangers)) else None


def _known(build: str, strangers: list[str]) -> Asks[bool]:
    """Whether this table has a plan of the build; else the build is added to ``strangers``."""
    if build not in strangers and (yield from ReadPlan(build)) is None:
        strangers.append(build)
    return build not in strangers


def _check_not_dropped(state: BuildState, commit: Commit) -> Asks[None]:
    """Fenced if the commit is of another build that was planned in this table."""
    found = barrier_record(commit) or announcement(commit)
    other = _planned_build(commit) if found is None else found.build
    if other not in (None, state.plan.build) and (yield from ReadPlan(other)) is not None:
        raise Fenced(
            f"{state.plan.spec.target} was dropped, and holds another build since ({other}, version {commit.version}); "
            "this attempt ends without another commit",
            by=other,
            version=commit.version,
        )


def _just_planned(build: str, wanted: str | None, walked: list[_Walked], head: int) -> Asks[BuildState]:
    plan = yield from plan_of(build, wanted)
    state = replace(BuildState.planned(plan), proven=head)
    for commit, record in reversed(walked):
        check_commit(plan, commit, record)
        if (news := announcement(commit, build)) is not None:
            state = announce(state, commit.version, news)
    return state


def _lanes(newest: Barrier, walked: list[_Walked], below: int) -> Asks[tuple[Barrier | None, ...]]:
    """The last barrier of each lane: after ``newest.prev``, or at the version that the newest record names."""
    record = newest.record
    last: list[Barrier | None] = [None] * record.layout.lanes
    last[record.lane] = newest
    for version in range(below, record.prev, -1):
        commit = yield from ReadCommit(version)
        found = barrier_record(commit, record.build)
        walked.append((commit, found))
        if found is not None and found.layout == record.layout and last[found.lane] is None:
            last[found.lane] = Barrier.of(commit, found)
    for lane, version in enumerate(record.tails):
        if last[lane] is None and version >= 0:
            last[lane] = yield from _tail(record, lane, version)
    return tuple(last)


def _carried(newest: Barrier) -> tuple[Barrier | None, ...]:
    """The last barrier of each lane as the newest record repeats them; empty if it lacks one."""
    record = newest.record
    lanes = range(record.layout.lanes)
    found = tuple(newest if lane == record.lane else Barrier.carried(record, lane) for lane in lanes)
    return () if any(one is None and record.tails[lane] >= 0 for lane, one in enumerate(found)) else found


def _announced(plan: Plan, newest: Barrier, walked: list[_Walked]) -> Asks[Announced | None]:
    """The lane of announcements: at the newest one in ``walked``, else at the one that the newest barrier names."""
    known = newest.record.announced
    if known is None:
        return None
    for commit, _ in walked:
        found = announcement(commit, plan.build)
        if found is not None:
            return Announced.at(commit.version, found)
    if known < 0:
        return Announced(plan.source.epoch)
    try:
        commit = yield from ReadCommit(known)
    except HistoryLost:
        if newest.record.news is None:
            raise
        return newest.record.news
    found = announcement(commit, plan.build)
    if found is None:
        raise RecordInvalid(f"version {known} is not the announcement that a later record names")
    return Announced.at(known, found)


def _tail(record: Record, lane: int, version: int) -> Asks[Barrier]:
    """The barrier from its commit, or from the copy in ``record``: a lane that has ended may age out of the log."""
    try:
        commit = yield from ReadCommit(version)
    except HistoryLost:
        if (carried := Barrier.carried(record, lane)) is None:
            raise
        return carried
    found = barrier_record(commit, record.build)
    if found is None or found.layout != record.layout or found.lane != lane:
        raise RecordInvalid(f"version {version} is not the barrier of lane {lane} that a later record names")
    return Barrier.of(commit, found)
