"""The folder beside a target: attempts and their outcomes, commands, copies of plans, digests of the
source, parts of proofs, large records.

If the folder is lost, the target's rows stay correct. The records are also in the target's log, and so is the plan, as
long as the log keeps it; only if a lost record was too large for a commit, the build has to be recovered. Numbers
continue above the highest one in the log. The memory of a keyed topic's build is only here: if it is lost, the build
stops (``MEMORY_LOST``) before it writes another row. The folder is beside the target, not in it, so that a refused plan
leaves no trace in the target and VACUUM never deletes it.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from airflow_backfill.core.errors import DocumentDamaged, RecordInvalid
from airflow_backfill.core.model.plan import MAX_BYTES, Plan
from airflow_backfill.core.values.attempt import Attempt, flaw
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.hidden import without_values
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.delta_log import READERS
from airflow_backfill.ledger.enclosures import FOLDER, Enclosures
from airflow_backfill.ledger.journal import Journal
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.spending import OUTCOME, SPENT, STARTED, WORKER, Spending
from airflow_backfill.ledger.store import NotFound, Store

SUFFIX = ".backfill"
EXPLANATIONS = "explanations"
DEAD_LETTERS = "dead_letters"
TRIAL = "trial"
DROPPING = "dropping"
OF_A_BUILD = ("commands", "plans", "proofs", "digests", "changes", FOLDER, "memory", DEAD_LETTERS, EXPLANATIONS, TRIAL)
"""Folders that are dropped with a target. Attempts stay: one of them drops the target, and their numbers continue."""
_REPORT = ".report.json"
PROOFS = "proofs"
_INSTANCE = ("dag_id", "task_id", "run_id", "map_index")
"""The fields of an attempt's document that name its task instance in Airflow."""
SETTINGS_OF = 50
"""Newest attempts among which those are looked for that have announced Spark's settings."""
KEPT_ATTEMPTS = 200
"""Newest attempts of a target that stay; of older ones, those that have no outcome."""


class ControlFolder:
    """``attempts/``, ``commands/``, ``plans/``, ``proofs/``, ``digests/``, ``explanations/`` and ``records/`` of one
    target. ``values``: whether it tells values of rows that are in messages and data of errors.
    """

    def __init__(self, store: Store, *, values: bool = True) -> None:
        self._store = store
        self._values = values
        self.enclosures = Enclosures(store)
        self._attempts = Journal(store, "attempts")
        self._commands = Journal(store, "commands")
        self._spending = Spending(self._attempts)
        self._ordered: tuple[str, Mapping[int, dict[str, Any]]] = "", {}

    @staticmethod
    def beside(target: str, spark: Any = None, options: StoreOptions = None, *, values: bool = True) -> ControlFolder:
        """The control folder of the target at this location; ``options`` as for ``open_store``."""
        Location.parse(target)  # whose error names the target, not the folder
        return ControlFolder(open_store(location_beside(target), spark=spark, options=options), values=values)

    def draw_attempt(self, document: Mapping[str, Any], floor: int) -> Attempt:
        """A new attempt, with the time at which it is drawn. Its generation is higher than all earlier ones and than
        ``floor``, the highest in the log.

        Forgets the attempt that is ``KEPT_ATTEMPTS`` older, if that has an outcome, except for what it has cost.
        """
        name = uuid.uuid4().hex
        generation = self._attempts.append({"at": now_ms(), **document, "attempt": name}, floor)
        old = generation - KEPT_ATTEMPTS
        if old > 0 and self._attempts.read_beside(old, OUTCOME) is not None:
            self._spending.hand_on(old, max(old - KEPT_ATTEMPTS, 0))
            self._attempts.delete(old, (OUTCOME, STARTED, WORKER, SPENT))
        return Attempt(generation, name)

    def attempts(self, count: int = KEPT_ATTEMPTS, known: int = 0) -> list[tuple[int, dict[str, Any]]]:
        """Generation and document of the ``count`` newest attempts, oldest first. ``known`` is any generation that was
        drawn, such as the one in the newest record.
        """
        return self._attempts.last(count, max(known - KEPT_ATTEMPTS, 0))

    def generations(self, count: int, known: int = 0) -> list[int]:
        """The generations of the ``count`` newest attempts, ascending, as for ``attempts``; reads none of them."""
        return self._attempts.numbers(max(known - KEPT_ATTEMPTS, 0))[-count:]

    def attempt(self, generation: int) -> dict[str, Any]:
        """The document of an attempt that is listed; DocumentDamaged if it is not one."""
        found = self._attempts.read(generation)
        if (what := flaw(found, "attempt")) is not None:
            raise self._attempts.damaged(generation, "", what)
        return found

    def drawn(self, attempt: Attempt) -> dict[str, Any] | None:
        """The document of an attempt; None if it was not drawn here."""
        try:
            found = self.attempt(attempt.generation)
        except NotFound:
            return None
        return found if found["attempt"] == attempt.name else None

    def superseded_by(self, attempt: Attempt) -> str | None:
        """The name of a newer attempt of the same task instance of Airflow; None if there is none.

        Airflow starts a newer attempt only if it no longer waits for the older one. Cheap while no newer attempt
        exists: one read. For an attempt that is ``KEPT_ATTEMPTS`` older than the newest, the target's log has to tell.
        """
        newer = [document for _, document in self._attempts.following(attempt.generation)]
        if not newer:
            return None
        own = self.drawn(attempt)
        if own is None or None in (instance := _instance(own)):
            return None
        return next((str(one.get("attempt")) for one in newer if _instance(one) == instance), None)

    def announce(self, attempt: Attempt, facts: Mapping[str, Any]) -> None:
        """Store that the attempt's application runs, with ``facts`` such as the address of its UI."""
        self._attempts.put_beside(attempt.generation, STARTED, {"at": now_ms(), **facts, "attempt": attempt.name})

    def announced(self, attempt: Attempt) -> dict[str, Any] | None:
        """The facts that the attempt's application stored at its start; None before."""
        return self._beside(attempt, STARTED)

    def store_outcome(self, attempt: Attempt, outcome: Mapping[str, Any]) -> None:
        """Store how an attempt ended. Its name tells it from an attempt of a lost folder with the same generation."""
        self._attempts.put_beside(attempt.generation, OUTCOME, {"at": now_ms(), **outcome, "attempt": attempt.name})

    def outcome(self, attempt: Attempt) -> dict[str, Any] | None:
        """How the attempt ended; None if it stored no outcome."""
        found = self._beside(attempt, OUTCOME, "code")
        return found if found is None or self._values else without_values(found)

    def add_requests(self, attempt: Attempt, count: int) -> None:
        """Add requests of the worker that waits for the attempt to what it has cost."""
        before = (self._beside(attempt, WORKER) or {}).get("requests")
        known = before if type(before) is int else 0
        document = {"attempt": attempt.name, "requests": known + count}
        self._attempts.put_beside(attempt.generation, WORKER, document)

    def cost(self, running: Mapping[Attempt, Mapping[str, Any]] | None = None) -> Cost:
        """What all attempts at the build have cost; ``running``: what some have cost by now, if they are not over."""
        told = {attempt.generation: cost for attempt, cost in (running or {}).items()}
        return self._spending.total(max(max(told, default=0) - 2 * KEPT_ATTEMPTS, 0), told)

    def _beside(self, attempt: Attempt, suffix: str, *needed: str) -> dict[str, Any] | None:
        found = self._attempts.read_beside(attempt.generation, suffix)
        if found is None or (found.get("attempt") != attempt.name and isinstance(found.get("attempt"), str)):
            return None
        if (what := flaw(found, "attempt", *needed)) is not None:
            raise self._attempts.damaged(attempt.generation, suffix, what)
        return found

    def settings(self) -> Iterator[Mapping[str, str]]:
        """Spark's settings of the last attempts that have announced them, the newest first, without secrets."""
        for generation in reversed(self.generations(SETTINGS_OF)):
            conf = (self.announced(Attempt(generation, self.attempt(generation)["attempt"])) or {}).get("conf")
            if isinstance(conf, dict):
                yield {str(name): str(value) for name, value in conf.items()}

    def newest(self) -> Iterator[dict[str, Any]]:
        """The documents of the last attempts, the newest first."""
        return (self.attempt(generation) for generation in reversed(self.generations(SETTINGS_OF)))

    def store_explanation(self, attempt: Attempt, explanation: Mapping[str, Any]) -> None:
        """Store why a row is as it is, as an attempt found it. It holds values of rows."""
        document = {"at": now_ms(), "attempt": attempt.name, "explanation": explanation}
        self._store.put(_explanation_name(attempt.generation), json.dumps(document).encode())

    def explanation(self, generation: int) -> dict[str, Any] | None:
        """The explanation that an attempt stored; None if there is none, or it was removed."""
        try:
            found = self._document(_explanation_name(generation))
        except NotFound:
            return None
        explanation = found.get("explanation") if isinstance(found, dict) else None
        if not isinstance(explanation, dict):
            name = _explanation_name(generation)
            raise DocumentDamaged(f"{self._store.url}: {name}: it has no explanation", file=name)
        return explanation

    def explanations(self) -> list[int]:
        """The generations of the attempts whose explanations are stored, the newest first."""
        names = (name.removesuffix(".json") for name in self._store.list(EXPLANATIONS))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def remove_explanations(self, before: int) -> int:
        """Delete explanations that were stored before a time, and damaged ones. Returns their number."""
        old = [name for name in self._store.list(EXPLANATIONS) if self._stored(f"{EXPLANATIONS}/{name}") < before]
        for name in old:
            self._store.delete(f"{EXPLANATIONS}/{name}")
        return len(old)

    def _stored(self, name: str) -> int:
        with suppress(NotFound, RecordInvalid):
            found = self._document(name)
            at = found.get("at") if isinstance(found, dict) else None
            return at if type(at) is int else 0
        return 0

    def order(self, build: str, command: Command, floor: int = 0, *, once: bool = False) -> int:
        """Append a command. Returns the number under which a barrier acknowledges it. ``once``: that of a command with
        the same ``via``, if there is one.
        """
        document = {"build": build, **Command.from_json(command.to_json()).to_json()}
        if not once:
            return self._commands.append(document, floor)
        names = ("build", "via")
        return self._commands.append_once(
            document,
            lambda other: all(other.get(name) == document.get(name) for name in names),
            floor,
            self._known(build),
        )

    def forget(self, command: int) -> None:
        """Delete a command that later ones have replaced. The newest one must stay."""
        self._commands.delete(command)

    def commands(self, build: str) -> Sequence[tuple[int, Command]]:
        """All commands of a build, in order. Reads each once: the numbers of another build may begin anew."""
        documents = self._commands.after(0, self._known(build))
        self._ordered = build, dict(documents)
        found = []
        for number, document in documents:
            ordered = dict(document)
            whose = ordered.pop("build", None)
            try:
                if whose == build:
                    found.append((number, Command.from_json(ordered)))
                elif not isinstance(whose, str):
                    raise RecordInvalid(f"it is of no build: {whose!r:.50}")
            except RecordInvalid as error:
                raise self._commands.damaged(number, "", error.message) from None
        return found

    def _known(self, build: str) -> Mapping[int, dict[str, Any]]:
        """The commands that were read before, by number."""
        of, known = self._ordered
        return known if of == build else {}

    def store_plan(self, plan: Plan) -> None:
        """Store a copy of the plan, unless it is there: the log forgets the plan after a while."""
        with suppress(RecordInvalid):
            if self.plan(plan.build) is not None:
                return
        self._store.put(_plan_name(plan.build), plan.encode().encode())

    def plan(self, build: str) -> Plan | None:
        """The copy of a build's plan; None if there is none."""
        try:
            return Plan.from_json(self._document(_plan_name(build)))
        except NotFound:
            return None

    @property
    def plans(self) -> Iterator[Plan]:
        """The copies of all plans that can be read."""
        for name in self._store.list("plans"):
            with suppress(RecordInvalid):
                if not name.endswith(_REPORT) and (found := self.plan(name.removesuffix(".json"))) is not None:
                    yield found

    def store_report(self, build: str, report: Mapping[str, Any]) -> None:
        """Store the plan's report, so that what happens can be compared with it."""
        self._store.put(_report_name(build), json.dumps(report).encode())

    def report(self, build: str) -> dict[str, Any] | None:
        """The plan's report; None if there is none, or if it is damaged."""
        with suppress(NotFound, RecordInvalid):
            found = self._document(_report_name(build))
            return found if isinstance(found, dict) else None
        return None

    def store_part(self, name: str, document: Mapping[str, Any]) -> None:
        """Store a partial result of a verification. ``name`` identifies the files and the query."""
        self._store.put(_part_name(name), json.dumps(document).encode())

    def part(self, name: str) -> Any:
        """The partial result that an earlier attempt stored under this name; None if there is none."""
        try:
            return self._document(_part_name(name))
        except NotFound:
            return None

    def remove_parts(self) -> int:
        """Delete all partial results of verifications. A verification that runs starts again. Returns their number."""
        names = self._store.list(PROOFS)
        for name in names:
            self._store.delete(f"{PROOFS}/{name}")
        return len(names)

    def store_digest(self, build: str, piece: Mapping[str, Any], digest: Sequence[Any]) -> None:
        """Store the digest of a piece of a build's source."""
        document = json.dumps({"piece": piece, "digest": digest}).encode()
        self._store.put(f"{_digests_of(build)}/{fingerprint(piece)}.json", document)

    def forget_digests(self, build: str, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Delete the digests of pieces that another one holds, too."""
        names = (f"{_digests_of(build)}/{fingerprint(piece)}.json" for piece in pieces)
        with ThreadPoolExecutor(READERS, "digests") as pool:
            deque(pool.map(self._store.delete, names), 0)

    def digests(self, build: str) -> Iterator[Any]:
        """What was stored of the pieces of a build's source: ``piece`` and ``digest``. Damaged files are left out."""
        folder = _digests_of(build)
        with ThreadPoolExecutor(READERS, "digests") as pool:
            found = pool.map(lambda name: self._digest(f"{folder}/{name}"), self._store.list(folder))
            yield from (digest for digest in found if digest is not None)

    def _digest(self, name: str) -> Any:
        with suppress(RecordInvalid, NotFound):  # a proof beside this one may have joined it to others
            return self._document(name)
        return None

    @property
    def dropping(self) -> bool:
        """Whether a drop of the target has begun and has not ended: what is left of the target may be anything."""
        try:
            self._store.read(DROPPING, 1)
        except NotFound:
            return False
        return True

    def begin_drop(self) -> None:
        self._store.put(DROPPING, b"{}")

    def end_drop(self) -> None:
        self._store.delete(DROPPING)

    def _document(self, name: str) -> Any:
        try:
            return json.loads(self._store.read(name, MAX_BYTES + 1))
        except (ValueError, RecursionError):
            raise RecordInvalid(
                f"{self._store.url}/{name} is not JSON; restore the file or delete it", file=name
            ) from None


def _instance(document: Mapping[str, Any]) -> list[Any]:
    """The task instance of an attempt; with None if Airflow did not start it."""
    return [document.get(field) for field in _INSTANCE]


def location_beside(target: str) -> str:
    """The location of a target's control folder."""
    return target.rstrip("/") + SUFFIX


def memory_beside(target: str, build: str) -> str:
    """The location of a build's memory of keys, which is needed as long as the target exists."""
    return f"{location_beside(target)}/memory/{build}"


def dead_letters_beside(target: str, build: str) -> str:
    """The location of a build's table of undecodable records, if its plan names no other."""
    return f"{location_beside(target)}/{DEAD_LETTERS}/{build}"


def changes_beside(target: str, build: str) -> str:
    """The location of stored changes, which a build only needs while it applies an epoch in several rounds."""
    return f"{location_beside(target)}/changes/{build}"


def _plan_name(build: str) -> str:
    return f"plans/{build}.json"


def _report_name(build: str) -> str:
    return f"plans/{build}{_REPORT}"


def _digests_of(build: str) -> str:
    return f"digests/{build}"


def _explanation_name(generation: int) -> str:
    return f"{EXPLANATIONS}/{generation:09}.json"


def _part_name(name: str) -> str:
    return f"{PROOFS}/{name}.json"
