"""Announces the source's epochs while an attempt works on their data (docs/behaviours/chain.md).

The announcer has a lane of its own and the generation of its attempt, and starts once the attempt owns its lane. Each
turn reads the source and announces new epochs. If there are none, it checks in committed state whether all announced
epochs are applied. No epoch after the pinned hand-off epoch is announced, so the data always catches up.
"""

from __future__ import annotations

from airflow_backfill.core.attempts.attempt import BACK_OFF_MS, CONTENTION_LIMIT
from airflow_backfill.core.errors import Fenced, TargetContended
from airflow_backfill.core.model.announcement import Announced, Announcement, Kind
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.effect import (
    Asks,
    CommitRecord,
    Nothing,
    ReadCommands,
    ReadSourceLog,
    SleepUntil,
)
from airflow_backfill.core.state.load import catch_up, load
from airflow_backfill.core.state.state import BuildState, arrived
from airflow_backfill.core.strategies.chain import announceable
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import obey
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Phase

EVERY = 2_000
"""Milliseconds between looks at the source. An epoch is announced after at most this time plus a commit."""


def announce(me: Attempt, build: str | None = None) -> Asks[BuildState]:
    """Announce until the build has caught up. Returns the state then; raises a BackfillError otherwise."""
    state = yield from load(build)
    misses = 0
    while misses < CONTENTION_LIMIT:
        looked = yield from ReadCommands(files=False)
        lane = state.announced
        if lane is None or not lane.open:
            return state
        source = yield from ReadSourceLog(lane.seen)
        check_source(state.plan, source, lane.seen, state.stands)
        cancelled = state.phase is Phase.CANCELLED or obey(state.control, looked.commands).cancelled
        news = None if cancelled else _next(state, lane, source, me)
        if news is None:
            yield from SleepUntil(looked.now + EVERY, looked.now, "nothing new to announce", for_commit=True)
            state = yield from catch_up(state)
            continue
        written = yield from CommitRecord(news, Nothing())
        state = yield from catch_up(state)
        landed = _landed(state.announced, news)
        if not landed and written.error is not None:
            raise written.error
        misses = 0 if landed else misses + 1
        wait = EVERY if news.kind is Kind.EPOCHS and landed else BACK_OFF_MS << misses if misses else 0
        if wait and misses < CONTENTION_LIMIT:
            why = "announced" if landed else "another commit came first"
            yield from SleepUntil(looked.now + wait, looked.now, why)
            state = yield from catch_up(state)
    raise TargetContended(f"other commits came before the same announcement {misses} times in a row", tries=misses)


def _next(state: BuildState, lane: Announced, source: SourceView, me: Attempt) -> Announcement | None:
    """The next announcement; None if nothing is new, or if this generation does not own the data's lane yet."""
    owner = state.lanes[0]
    works = owner.record.generation if owner is not None and not owner.record.closed else 0
    if lane.attempt != me.name:
        if max(lane.generation, works) > me.generation:
            raise Fenced("a newer attempt has taken over", attempt=me.name)
        if works < me.generation:
            return None
        return _announcement(state, lane, source, me, Kind.CLAIM, lane.seen)
    last = announceable(lane, source, state.handoff)
    if last > lane.seen:
        return _announcement(state, lane, source, me, Kind.EPOCHS, last)
    return _announcement(state, lane, source, me, Kind.CAUGHT_UP, last) if arrived(state) else None


def _announcement(
    state: BuildState, lane: Announced, source: SourceView, me: Attempt, kind: Kind, seen: int
) -> Announcement:
    commit = source.commit(seen) or lane.source
    return Announcement(
        build=state.plan.build,
        plan=state.plan.fingerprint,
        seq=lane.seq + 1,
        generation=me.generation,
        attempt=me.name,
        prev=state.proven,
        newest=state.newest.version if state.newest is not None else -1,
        kind=kind,
        seen=seen,
        epochs=EpochRange(lane.seen + 1, seen + 1) if kind is Kind.EPOCHS else None,
        digest=commit.digest if commit is not None and commit.version == seen else None,
    )


def _landed(lane: Announced | None, news: Announcement) -> bool:
    """Whether the lane that was read back contains the announcement. A lane that has ended needs no more."""
    return lane is None or (lane.attempt, lane.seq) == (news.attempt, news.seq)
