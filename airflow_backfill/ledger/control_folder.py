"""The folder beside a target: attempts and their outcomes, commands, copies of plans, parts of proofs, large records.

Everything in it can be lost without harm to the build's rows: the plan is also in the target's log, progress
is nowhere else than there (but for records that are too large for a commit: then the build has to be recovered), and
numbers go on above the highest one that the log knows. Only the memory of a keyed topic's build is nowhere else:
without it the build stops (``MEMORY_LOST``) before another row is written. The folder lies beside the target, not in
it, so that a plan that refuses has touched no target, and so that VACUUM never meets it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.plan import MAX_BYTES, Plan
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command
from airflow_backfill.ledger.enclosures import FOLDER, Enclosures
from airflow_backfill.ledger.journal import Journal
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import NotFound, Store

SUFFIX = ".backfill"
OF_A_BUILD = ("commands", "plans", "proofs", FOLDER, "memory")
"""What goes with a build when its target is dropped. Attempts stay: one of them drops it, and their numbers go on."""
STARTED = "started"
OUTCOME = "outcome"


class ControlFolder:
    """``attempts/``, ``commands/``, ``plans/``, ``proofs/`` and ``records/`` of one target."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.enclosures = Enclosures(store)
        self._attempts = Journal(store, "attempts")
        self._commands = Journal(store, "commands")

    @staticmethod
    def beside(target: str, spark: Any = None, options: Mapping[str, str] | None = None) -> ControlFolder:
        """The control folder of the target at this location; ``options`` as for ``open_store``."""
        return ControlFolder(open_store(location_beside(target), spark=spark, options=options))

    def draw_attempt(self, document: Mapping[str, Any], floor: int) -> Attempt:
        """A new attempt, with a higher generation than any drawn before and than ``floor``, the log's highest."""
        name = uuid.uuid4().hex
        generation = self._attempts.append({**document, "attempt": name}, floor)
        return Attempt(generation, name)

    def attempts(self) -> list[tuple[int, dict[str, Any]]]:
        """What was drawn, oldest first."""
        return self._attempts.after(0)

    def announce(self, attempt: Attempt, facts: Mapping[str, Any]) -> None:
        """Say that the attempt's application runs, and where it can be seen."""
        self._attempts.put_beside(attempt.generation, STARTED, {**facts, "attempt": attempt.name})

    def announced(self, attempt: Attempt) -> dict[str, Any] | None:
        """What the attempt's application said when it started; None before."""
        return self._beside(attempt, STARTED)

    def store_outcome(self, attempt: Attempt, outcome: Mapping[str, Any]) -> None:
        """How an attempt ended. Written once; the attempt's name tells it from one of a lost folder."""
        self._attempts.put_beside(attempt.generation, OUTCOME, {**outcome, "attempt": attempt.name})

    def outcome(self, attempt: Attempt) -> dict[str, Any] | None:
        """How the attempt ended, or None if it left nothing behind."""
        return self._beside(attempt, OUTCOME)

    def _beside(self, attempt: Attempt, suffix: str) -> dict[str, Any] | None:
        found = self._attempts.read_beside(attempt.generation, suffix)
        return found if found is not None and found.get("attempt") == attempt.name else None

    def order(self, build: str, command: Command, floor: int = 0) -> int:
        """Append a command; the number under which a barrier will acknowledge it."""
        return self._commands.append({"build": build, **Command.from_json(command.to_json()).to_json()}, floor)

    def commands(self, build: str) -> Sequence[tuple[int, Command]]:
        """All commands of a build, in order."""
        found = []
        for number, document in self._commands.after(0):
            if document.pop("build", None) == build:
                found.append((number, Command.from_json(document)))
        return found

    def store_plan(self, plan: Plan) -> None:
        """Copy the plan record, so that reading a build's state never has to look for the plan in the log."""
        self._store.create(_plan_name(plan.build), plan.encode().encode())

    def plan(self, build: str) -> Plan | None:
        """The copy of a build's plan; None if there is none."""
        try:
            return Plan.from_json(self._document(_plan_name(build)))
        except NotFound:
            return None

    def store_part(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep what a verification has found out about some files. ``name`` says which, and how it was asked."""
        self._store.put(_part_name(name), json.dumps(document).encode())

    def part(self, name: str) -> Any:
        """What an earlier attempt has found out under this name; None if nothing."""
        try:
            return self._document(_part_name(name))
        except NotFound:
            return None

    def _document(self, name: str) -> Any:
        try:
            return json.loads(self._store.read(name, MAX_BYTES + 1))
        except ValueError:
            raise RecordInvalid(f"{self._store.url}: {name} is damaged", file=name) from None


def location_beside(target: str) -> str:
    """Where the control folder of a target is."""
    return target.rstrip("/") + SUFFIX


def memory_beside(target: str, build: str) -> str:
    """Where a keyed topic's build remembers keys, for as long as its target lives."""
    return f"{location_beside(target)}/memory/{build}"


def _plan_name(build: str) -> str:
    return f"plans/{build}.json"


def _part_name(name: str) -> str:
    return f"proofs/{name}.json"
