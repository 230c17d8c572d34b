"""What the attempts at a target have cost in all, those included whose files are deleted.

Before an attempt is deleted, the sum up to it is stored beside the next one: ``000000008.spent.json`` has the cost of
the attempts before the eighth. Everybody computes the same sum, so a lost race or a crash counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.errors import DocumentDamaged
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.ledger.journal import NONE, READERS, Journal
from airflow_backfill.ledger.store import NotFound

SPENT, STARTED, OUTCOME, WORKER = "spent", "started", "outcome", "worker"
"""Companions of an attempt: the sum before it, its announcement, its outcome, and what its worker counted."""
PLAN = "plan"
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class _Sum:
    """The cost of the attempts since a build was planned."""

    build: str | None = None
    cost: Cost = field(default_factory=Cost)

    def with_attempt(self, planned: str | None, cost: Cost) -> _Sum:
        """``planned``: the build that the attempt planned. If it is another one, the sum begins anew."""
        before = _Sum(planned) if planned not in (None, self.build) else self
        return _Sum(before.build, before.cost + cost)


class Spending:
    """The costs of the attempts in a journal."""

    def __init__(self, attempts: Journal) -> None:
        self._attempts = attempts

    def total(self, after: int, running: Mapping[int, Mapping[str, Any]] = NONE) -> Cost:
        """What all attempts at the target's build have cost. Those up to ``after`` are only looked for in stored sums.
        ``running``: by generation, what running attempts have cost so far, if that is newer than their announcement.
        """
        return self._sum(after, self._listed(after), running).cost

    def hand_on(self, old: int, after: int) -> None:
        """Store the sum up to an attempt that will be deleted beside the next one; ``after`` as for ``total``."""
        listed = self._listed(old - 1)
        if SPENT in listed.get(old, ()):
            after = old - 1
        else:
            listed = self._listed(after)
        heir = min(number for number in listed if number > old and "" in listed[number])
        found = self._sum(after, _before(heir, listed))
        self._attempts.put_beside(heir, SPENT, {"build": found.build, "cost": found.cost.to_json()})

    def _sum(self, after: int, listed: _Listed, running: Mapping[int, Mapping[str, Any]] = NONE) -> _Sum:
        """The sum over these attempts, and over the earlier ones that are deleted."""
        first = _first(listed)
        found = _Sum() if first is None else self._stored(first)
        later = sorted(number for number in listed if (first is None or number >= first) and "" in listed[number])
        with ThreadPoolExecutor(READERS, "costs") as pool:
            for planned, cost in pool.map(lambda number: self._attempt(number, listed[number], running), later):
                found = found.with_attempt(planned, cost)
        # Whoever deletes attempts has stored a sum before. If there is a new one, files that were read here may have
        # been missing.
        again = _before(max(listed, default=0) + 1, self._listed(after))
        return found if _first(again) == first else self._sum(after, again, running)

    def _attempt(
        self, number: int, files: Collection[str], running: Mapping[int, Mapping[str, Any]]
    ) -> tuple[str | None, Cost]:
        """The build that an attempt planned, if it planned one, and its cost."""

        def read(suffix: str) -> Mapping[str, Any]:
            return self._read(number, suffix) if suffix in files else _NOTHING

        told = running.get(number) or read(STARTED).get("cost")
        requests = read(WORKER).get("requests")
        cost = Cost.of_attempt(told if isinstance(told, dict) else {}, requests if type(requests) is int else 0)
        result = read(OUTCOME).get("result") if read("").get("task") == PLAN else None
        planned = result.get("build") if isinstance(result, dict) else None
        return planned if isinstance(planned, str) else None, cost

    def _stored(self, number: int) -> _Sum:
        found = self._read(number, SPENT)
        build = found.get("build")
        try:
            return _Sum(build if isinstance(build, str) else None, Cost.from_json(found.get("cost")))
        except ValueError:
            return _Sum(cost=Cost(attempts=1, uncounted=1))

    def _read(self, number: int, suffix: str) -> Mapping[str, Any]:
        """A file of an attempt; nothing if it is missing or damaged: no build stops because of its costs."""
        try:
            return (self._attempts.read_beside(number, suffix) if suffix else self._attempts.read(number)) or _NOTHING
        except (DocumentDamaged, NotFound):
            return _NOTHING

    def _listed(self, after: int) -> _Listed:
        listed: dict[int, set[str]] = {}
        for number, suffix in self._attempts.files(after):
            listed.setdefault(number, set()).add(suffix)
        return listed


_Listed = Mapping[int, Collection[str]]
"""By generation: the suffixes of its files; an empty one for its document."""


def _before(end: int, listed: _Listed) -> _Listed:
    return {number: files for number, files in listed.items() if number < end}


def _first(listed: _Listed) -> int | None:
    """The last attempt beside which a sum is stored."""
    return max((number for number, files in listed.items() if SPENT in files), default=None)
