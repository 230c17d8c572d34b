"""The attempts at a build, read from beside its target. A damaged file hides what it tells, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from airflow_backfill.builds.signs import SIGNS
from airflow_backfill.core.errors import BackfillError, DocumentDamaged
from airflow_backfill.core.reports.attempt_status import AttemptStatus, Instance, Life, last_sign, newest_of
from airflow_backfill.core.reports.difference import settles
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Errand
from airflow_backfill.ledger.control_folder import KEPT_ATTEMPTS, ControlFolder
from airflow_backfill.ledger.store import NotFound

AT_ONCE = 8
"""Attempts whose files are read at one time."""
EXPLAINED = 50
"""Newest attempts that are looked at, one after the other, as long as they have only explained rows."""


@dataclass(frozen=True, slots=True)
class Attempts:
    statuses: tuple[AttemptStatus, ...]
    """Oldest first."""
    damage: BackfillError | None
    """The error of the newest file that cannot be read."""


def attempts(control: ControlFolder, state: BuildState | None, now: int, last: int) -> Attempts:
    """The ``last`` attempts, and those that may work although newer ones do not: as many as lanes are left to read, and
    whoever holds such a lane; whoever committed last, if the newest ones only look. ``state``: what is committed, None
    before the plan; ``now`` in milliseconds since 1970.
    """
    known = max((one.record.generation for one in state.known), default=0) if state is not None else 0
    try:
        listed = control.generations(KEPT_ATTEMPTS, known)
    except DocumentDamaged as error:
        return Attempts((), error)

    def read(generation: int) -> AttemptStatus:
        try:
            return attempt(control, state, now, generation, control.attempt(generation))
        except (DocumentDamaged, NotFound) as error:
            damage = error if isinstance(error, DocumentDamaged) else DocumentDamaged(str(error))
            return AttemptStatus.unreadable(generation, damage)

    wanted = {*listed[-last:], *_of_lanes(state, listed)}
    drawn = [n for n in listed if n in wanted]
    if len(drawn) > 1:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(read, drawn))
    else:
        found = list(map(read, drawn))
    if state is not None and state.newest is not None and not any(one.works for one in found):
        committed = state.newest.record.generation
        found = [*map(read, {committed} & set(listed) - set(drawn)), *found]
    newest = newest_of(found)
    statuses = tuple(replace(one, life=Life.SUPERSEDED) if _superseded(one, newest) else one for one in found)
    return Attempts(statuses, next((one.damage for one in reversed(statuses) if one.damage is not None), None))


def _of_lanes(state: BuildState | None, listed: Sequence[int]) -> set[int]:
    """Among the ``listed`` generations, the newest for each lane with splits left to read, and those that hold it."""
    if state is None or not state.unread:
        return set()
    return {*listed[-len(state.unread) :], *(state.generation(lane) for lane in state.unread)}


def attempt(
    control: ControlFolder, state: BuildState | None, now: int, generation: int, document: Mapping[str, Any]
) -> AttemptStatus:
    """The attempt with this document, whether a newer one of its task has begun left aside."""
    me = Attempt(generation, document["attempt"])
    barriers = () if state is None else (known for known in state.known if known.record.attempt == me.name)
    committed = max((barrier.at for barrier in barriers), default=None)
    announced, silent = _read(control.announced, me)
    outcome, lost = _read(control.outcome, me)
    seen = last_sign(announced or {}, committed)
    unchanged = 0 if seen is None else SIGNS.unchanged_ms(me.name, seen)
    return AttemptStatus.told(generation, document, announced or {}, outcome, seen, now, lost or silent, unchanged)


def last_settling(control: ControlFolder, statuses: Sequence[AttemptStatus]) -> AttemptStatus | None:
    """The last attempt that has told whether keys differ, among ``statuses`` and what lies before explanations: people
    ask for many of those while they look into a proof that failed. None if there is none.
    """
    if found := next((one for one in reversed(statuses) if settles(one)), None):
        return found
    explained = Errand.EXPLAIN.value
    if not statuses or any(one.task != explained for one in statuses):
        return None
    for generation in reversed(control.generations(EXPLAINED, statuses[-1].generation)):
        if generation < statuses[0].generation:
            with suppress(DocumentDamaged, NotFound):
                one = attempt(control, None, 0, generation, control.attempt(generation))
                if settles(one):
                    return one
                if one.task != explained:
                    break
    return None


def _read(
    read: Callable[[Attempt], dict[str, Any] | None], me: Attempt
) -> tuple[dict[str, Any] | None, BackfillError | None]:
    try:
        return read(me), None
    except DocumentDamaged as error:
        return None, error


def _superseded(one: AttemptStatus, newest: Mapping[tuple[str, Instance], AttemptStatus]) -> bool:
    return one.outcome is None and one.instance is not None and newest[one.task, one.instance] is not one
