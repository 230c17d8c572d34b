"""A build in few requests to its store, for a page over hundreds of them: committed state, how far the source is ahead,
what the build does and waits for. Reads no more of the source's log than its head and the oldest pending commit, so a
build that is ten thousand epochs behind takes as long as one that is not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.history import History, longest_ms
from airflow_backfill.builds.look import RESTS, commands_of
from airflow_backfill.builds.status import planning
from airflow_backfill.builds.waiting import waits_for
from airflow_backfill.core.errors import BackfillError, HistoryLost, NotPlanned
from airflow_backfill.core.reports import way_out
from airflow_backfill.core.reports.clocks import doubts
from airflow_backfill.core.reports.health import health
from airflow_backfill.core.reports.progress import Speed
from airflow_backfill.core.reports.summary import told
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import obey
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import glance_at_source
from airflow_backfill.ledger.open_store import StoreOptions
from airflow_backfill.ledger.reader import BuildReader

COMMITS = 3
"""Commits of the target from which the speed is measured."""
FRESH_MS = 300_000
"""A head of the source that was seen less than this ago is near the one of now."""


def glance(target: str, options: StoreOptions = None, *, values: bool = True) -> dict[str, Any]:
    """As ``status``, with less: only the attempts that may work are looked at, and pending epochs are not read: while
    there are any, ``lag["rows"]`` is None, and the time left is that at the last barrier. Raises the error that keeps
    the state from being read; that of the source, or of a file beside the target, is in ``trouble``. An epoch
    that stops the build later is told by its attempt, or by ``status``. ``values``: whether messages may show values of
    rows.
    """
    now = now_ms()
    reader = BuildReader(target, options=options, values=values)
    try:
        state = reader.state()
    except NotPlanned as missing:
        return planning(reader, now, missing)
    commands, unread = commands_of(reader, state)
    control = obey(state.control, commands).at(now)
    past = History.read(reader.log, state, COMMITS)
    source, trouble = None, None
    if state.phase not in RESTS and state.plan.spec.source is not None:
        source, trouble = _source(state, now, options)
    trouble = unread or trouble
    last = attempts(reader.control, state, now, 1)
    shown = trouble or last.damage
    known = health(state, control, commands, last.statuses, trouble, now, partial(longest_ms, reader.log, state))
    speed = Speed.of_barriers(state, past.of_this_phase) if known.moves else None
    return {
        **told(state, source, speed, now),
        "health": known.to_json(),
        "ordered": control.number,
        "waits_for": waits_for(state, control, None, trouble, now),
        "clocks": doubts(last.statuses, source, now),
        "trouble": None if shown is None else way_out.told(shown),
    }


def _source(state: BuildState, now: int, options: StoreOptions) -> tuple[Glance | None, BackfillError | None]:
    """The source if it can be read, and the error that stops the build, as far as the source's head and the oldest
    pending commit tell.
    """
    try:
        source = glance_at_source(state.plan, state.reached, _known(state, now), options)
    except BackfillError as error:
        return None, error
    try:
        check_source(state.plan, source, state.reached, ())
    except HistoryLost as error:
        return source, error
    except BackfillError as error:
        return None, error
    return source, None


def _known(state: BuildState, now: int) -> int | None:
    """The source's head as the newest record has seen it; None if that is long ago: many epochs may have followed."""
    pending = None if state.newest is None else state.newest.record.pending
    return None if pending is None or abs(now - pending.at) > FRESH_MS else pending.head
