"""A build in few requests to its store, for a page over hundreds of them: committed state, how far the source is ahead,
what the build does and waits for. Reads no more of the source's log than its head and the oldest pending commit, so a
build that is ten thousand epochs behind takes as long as one that is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.status import planning
from airflow_backfill.builds.waiting import waits_for
from airflow_backfill.core.errors import BackfillError, HistoryLost, NotPlanned, SourceNotDelta
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.reports.health import health
from airflow_backfill.core.reports.progress import Speed
from airflow_backfill.core.reports.summary import told
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.values.control import obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader

COMMITS = 3
"""Commits of the target from which the speed is measured."""
RESTS = (Phase.FINISHED, Phase.CANCELLED)
"""Phases in which nobody waits for the source."""


def glance(target: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """As ``status``, with less: of the attempts only the last one is looked at, pending epochs are not read
    (``lag["rows"]`` is None), and the time left of the log is the one at the last barrier. Raises the error that keeps
    the state from being read; one that keeps only the source from being read is in ``trouble``.
    """
    now = time.time_ns() // 1_000_000
    reader = BuildReader(target, options=options)
    try:
        state = reader.state()
    except (NotPlanned, SourceNotDelta):
        found = planning(reader, now)
        if found is None:
            raise
        return found
    commands = reader.commands(state.plan.build)
    control = obey(state.control, commands).at(now)
    speed = Speed.of_barriers(state, _last(reader.log, state))
    lag, trouble = None, None
    try:
        lag = None if state.phase in RESTS else _lag(state.plan, state.reached, now, options)
    except BackfillError as error:
        trouble = error
    said = told(state, None, speed, now)
    return {
        **said,
        "lag": lag,
        "seconds_left": _left(state, speed) if said["seconds_left"] is None else said["seconds_left"],
        "health": health(state, control, commands, attempts(reader.control, state, now, 1), trouble, now).to_json(),
        "ordered": control.number,
        "waits_for": waits_for(state, control, None, trouble, now),
        "trouble": None if trouble is None else trouble.to_json(),
    }


def _left(state: BuildState, speed: Speed | None) -> int | None:
    """Seconds until the log is applied, as of the newest barrier."""
    pending = None if state.newest is None else state.newest.record.pending
    if state.phase is not Phase.CONSUME_LOG or speed is None or not speed.nearing or pending is None:
        return None
    return None if pending.rows is None or speed.nearing < 0 else round(pending.rows / speed.nearing)


def _last(log: DeltaLog, state: BuildState) -> list[Barrier]:
    """The last barriers of this phase, newest first."""
    newest = state.newest
    if newest is None:
        return []
    barriers = [newest]
    with suppress(HistoryLost):
        for version in range(newest.version - 1, max(newest.version - COMMITS, state.plan.target_version), -1):
            commit = log.read(version)
            record = barrier_record(commit)
            if record is None or record.build != state.plan.build:
                continue
            if record.phase is not state.phase:
                break
            barriers.append(Barrier.of(commit, record))
    return barriers


def _lag(plan: Plan, reached: int, now: int, options: Mapping[str, str] | None) -> dict[str, int | None] | None:
    if plan.spec.source is None:
        return None
    log = DeltaLog(open_store(plan.spec.source, options=options))
    head = log.head()
    _, metadata = log.protocol_and_metadata()
    kept, age = Retention.of(metadata.configuration).shorter, 0
    if head > reached:
        try:
            age = max(now - log.read(reached + 1).timestamp, 0)
        except HistoryLost:
            age = kept
    readable = max(kept - age, 0) if head > reached else None
    return {
        "head": head,
        "epochs": max(head - reached, 0),
        "rows": None,
        "age": age,
        "readable": readable,
        "kept": kept,
    }
