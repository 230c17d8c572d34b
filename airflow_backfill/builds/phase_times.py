"""When each phase of a build began, found in a log of any length by few reads: phases only go forward, except that a
recovery leads back to the catch-up. So the first barrier of a phase up to the current one is searched between two that
are known, with many probes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.delta_log import DeltaLog

ORDER = (Phase.SNAPSHOT, Phase.CONSUME_LOG, Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM)
PROBES = 16
"""Commits that are read at one time, for each phase. More if those tell nothing."""
MOST = 300
"""From so many commits on, no more are read. Fewer are enough if there are as many barriers as other commits."""

_Known = dict[int, tuple[int, int] | None]
"""By version: the place of the barrier's phase in ``ORDER``, and its time; None for a commit that tells nothing."""


def phase_times(log: DeltaLog, state: BuildState) -> list[dict[str, Any]]:
    """The phases up to the current one, each with its first and last time in milliseconds since 1970. ``to`` is None
    for the current one, whose first time may be before a recovery. Where log clean-up has deleted the first barriers,
    the oldest one that is left counts. A time may be a little late where hundreds of commits are no barriers.
    """
    newest = state.newest
    if newest is None or newest.record.phase not in ORDER:
        return []
    here = ORDER.index(newest.record.phase)
    first = state.plan.target_version
    known: _Known = {newest.version: (here, newest.at), first: _planned(log, first)}
    with ThreadPoolExecutor(PROBES) as threads:
        while len(known) < MOST and (wanted := {v for place in range(1, here + 1) for v in _between(known, place)}):
            found = threads.map(lambda version: _probe(log, state.plan.build, version), wanted)
            known.update(zip(wanted, found, strict=True))
    told = sorted(found for found in known.values() if found is not None and found[0] <= here)
    first_times = {place: at for place, at in reversed(told)}
    places = sorted(first_times)
    # The drivers of two phases may have two clocks: no phase begins before the one that it follows.
    starts = dict(zip(places, accumulate((first_times[place] for place in places), max), strict=True))
    ends = [*(starts[place] for place in places[1:]), None]
    return [
        {"phase": ORDER[place].value, "from": starts[place], "to": end} for place, end in zip(places, ends, strict=True)
    ]


def _between(known: _Known, place: int) -> Iterable[int]:
    """Versions to probe for the first barrier of a phase at ``place`` or later; none if it is found. Where those of a
    step tell nothing, as an announcement does, the ones between them are next.
    """
    told = [(version, found[0]) for version, found in known.items() if found is not None]
    high = min(version for version, phase in told if phase >= place)
    low = max((version for version, phase in told if phase < place and version < high), default=min(known))
    step = max((high - low) // PROBES, 1)
    while step and not (unknown := [version for version in range(low + step, high, step) if version not in known]):
        step //= 2
    return unknown


def _planned(log: DeltaLog, version: int) -> tuple[int, int] | None:
    try:
        return 0, log.read(version).timestamp
    except BackfillError:
        return None


def _probe(log: DeltaLog, build: str, version: int) -> tuple[int, int] | None:
    try:
        commit = log.read(version)
        record = barrier_record(commit, build)
    except BackfillError:
        return None
    return (ORDER.index(record.phase), commit.timestamp) if record is not None and record.phase in ORDER else None
