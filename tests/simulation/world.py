"""One simulated world under one seed: tables, attempts, Airflow, and the faults that this seed switches on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.attempts import announcer
from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.gates import gate
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.plan import Plan, build_id
from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from tests.simulation import dag, misfortune
from tests.simulation.digests import DigestFolder
from tests.simulation.draft import draft
from tests.simulation.faults import (
    AFTERWARDS,
    BENIGN,
    CALM,
    FATAL,
    FATAL_TO_TOPICS,
    OF_TOPICS,
    RETENTION,
)
from tests.simulation.invariant import Violation
from tests.simulation.judge import Judge
from tests.simulation.landing import LandingSource, last_records, some_topic
from tests.simulation.process import STAGES, Process, Started
from tests.simulation.protocol import protocol_of
from tests.simulation.source import Rows, Source, transform
from tests.simulation.target import Bag, Target, Transaction

MAX_STEPS = 40000
"""Recoveries that compete take turns, and each gives all lanes of the others a fence."""
CROWD = 40
"""Processes beside which nobody starts another one for no reason: they share the steps."""


HOUR = 3_600_000


@dataclass
class World:
    seed: int
    chain: bool | None = None
    """Whether epochs are announced; None: as the seed says."""
    topic: bool = False
    """Whether the source is a landing table, with a topic's history before it."""
    keyed: bool | None = None
    """Whether the records of a topic have keys; None: as the seed says."""
    ordered: bool = False
    """Whether a column says which record of a key is the last."""
    trouble: str | None = None
    """What befalls it; None: as the seed says."""
    draft: Callable[[Any], Plan] = draft
    """What its planner makes of the source."""
    through: bool = False
    """Whether the application of the snapshot goes on with the later phases, for as long as the gate is open."""
    adds_up: bool | None = None
    """Whether the proof is incremental; None: as the seed says."""
    forgets: str = ""
    """The task after which a build's memory of what it deleted is dropped, which is a bug."""
    rng: random.Random = field(init=False)
    now: int = 0
    target: Target = field(default_factory=Target)
    stored_plan: Plan | None = None
    pinned: int | None = None
    borders: list[int] = field(default_factory=list)
    commands: list[tuple[int, Command]] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    orphans: list[Transaction] = field(default_factory=list)
    memory: set[int] = field(default_factory=set)
    """The records by which an ordered build has deleted rows, whether that landed or not."""
    runs: int = 0
    """How often the build was followed to the source's end."""
    foreign: int = 0
    barred: bool = False
    """Whether the source has an epoch that nobody gets past, or the target a rule."""
    stage: int = 0
    generation: int = 0
    steps: int = 0
    outcome: str = ""
    by_hand: str = ""
    """What somebody runs instead of the DAG: "repair", or "recover" from the epoch ``named``; None for a rewind."""
    named: int | None = 0
    resumed: dict[str, int] = field(default_factory=dict)
    """By attempt that resumes a cancelled build: the newest command that there was."""
    stops_at_undecodable: bool = False
    """Whether the plan of a topic names no table of dead letters."""
    cleaned: int = -1
    """The step at which the target's log was cleaned up last."""
    led: int | None = None
    """The version of the last RESTORE that an error has asked for."""
    misnamed: bool = False
    """Whether the target's rows are not those of the named epoch."""
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.faults = {name: p for name, p in BENIGN.items() if self.rng.random() < 0.5} | AFTERWARDS
        self.fatal = self.rng.choice([*FATAL, None, None, None, None])
        self.fatal_at = self.rng.randrange(20, 700)
        self.fatal_done = False
        keys = self.rng.choice([0, 1, 5, 12, 30])
        self.source = Source(self.rng, keys)
        self.write_rate = self.rng.choice([0.0, 0.02, 0.1])
        self.lanes = self.rng.choice([1, 1, 2, 3])
        self.round_rows = self.rng.choice([1, 3, 8]) if "big epoch" in self.faults else 1000
        self.round_bytes = 4
        self.max_lag = self.rng.choice([0, 2, 5])
        self.key_borders = sorted(self.rng.sample(range(keys + 4), 3)) if self.rng.random() < 0.35 else None
        """Where the ranges of an arrangement end; None for a snapshot of files."""
        if self.key_borders is not None:
            self.lanes = 1
            self.faults.pop("lanes", None)
        # Drawn apart, so that a seed that once failed without a chain still means the same.
        apart = random.Random(f"chain {self.seed}")
        if self.chain is None:
            self.chain = self.key_borders is None and apart.random() < 0.4
        self.source.appends = self.chain and apart.random() < 0.5
        if self.chain:
            self.key_borders = None
            self.lanes = 1
            self.faults.pop("lanes", None)
        if self.source.appends and apart.random() < 0.25:
            self.fatal = "delete"
        if self.topic:
            self._of_topic(apart)
        self.fatal = self.trouble or self.fatal
        proofs = random.Random(f"proof {self.seed}")
        half = proofs.random() < 0.5
        self.adds_up = not self.topic and self.key_borders is None and (half if self.adds_up is None else self.adds_up)
        self.reread = proofs.choice([0.0, 0.3]) if self.adds_up else 0.0
        """The share of the source that a proof reads again."""
        self.digests = DigestFolder(proofs)
        self.aging = random.Random(f"aging {self.seed}")
        self.ages = self.aging.random() < 0.2
        """Whether the target's log is cleaned up far too early."""
        self.storm = random.Random(f"storm {self.seed}").random() < 0.1
        """Whether epochs come faster than they are applied, once the snapshot is read."""
        self.strangers = random.Random(f"strangers {self.seed}")
        self.haunted = self.strangers.random() < 0.2
        """Whether attempts of a build whose table stood here before still commit."""
        self.meddlers = random.Random(f"meddlers {self.seed}")
        self.meddled = 3 if self.meddlers.random() < 0.3 else 0
        """How often somebody else may still come just before the barrier of a recovery."""
        self.clocks = random.Random(f"clocks {self.seed}")
        self.apart = self.clocks.random() < 0.25
        """Whether clocks differ by hours: those of the source's writers, and of each process."""
        self.now = 10 * HOUR if self.apart else 0
        self.writers_ahead = self.some_hours() if self.apart else 0
        self.lag = MaxLag(epochs=self.max_lag)
        """How much may be pending when the gate opens."""
        if self.apart and self.clocks.random() < 0.5:
            self.lag = MaxLag(age=self.clocks.choice([0, 1_000, 60_000]))
        self.calmed = False
        """Whether somebody has seen to it that no more come."""
        self.patience = 3 if self.storm else 50
        """Rounds in a row that may leave more pending than the bound allows."""
        self.begin()

    @property
    def one_lane(self) -> bool:
        """Whether several lanes would be refused."""
        return self.key_borders is not None or self.chain or self.ordered

    def begin(self) -> None:
        self.judge = Judge(self)
        self.build = build_id(self.target.table_id, "sim")

    def _of_topic(self, rng: random.Random) -> None:
        self.source, self.key_borders, self.chain = some_topic(rng), None, False
        self.faults |= {name: p for name, p in OF_TOPICS.items() if rng.random() < 0.5}
        self.faults.pop("big epoch", None)
        self.faults.pop("recovery", None)
        self.round_bytes, self.round_rows = 1000, rng.choice([10, 50, 1000])
        sizes = random.Random(f"sizes {self.seed}")
        if sizes.random() < 0.2:
            self.source.large, self.round_bytes = sizes.randrange(40), 8_000
        apart = random.Random(f"key {self.seed}")
        self.keyed = apart.random() < 0.5 if self.keyed is None else self.keyed
        self.ordered = self.keyed and apart.random() < 0.5
        if self.ordered:
            self.lanes = 1
            self.faults.pop("lanes", None)
        self.fatal = rng.choice([*FATAL_TO_TOPICS, None, None, None, None])
        if self.fatal == "expire" and self.source.missed:
            self.fatal = None
        self.stops_at_undecodable = random.Random(f"undecodable {self.seed}").random() < 0.15
        older = random.Random(f"older {self.seed}")
        if self.fatal != "expire" and not self.source.noted:
            if older.random() < 0.3:
                self.source.expire(self.source.partitions)
            if older.random() < 0.4:
                self.faults["retention"] = RETENTION

    @property
    def writers_now(self) -> int:
        """What time it is by the clock of the source's writers."""
        return self.now + self.writers_ahead

    def some_hours(self) -> int:
        """By how much a clock is ahead, or behind."""
        return self.clocks.randrange(-4 * HOUR, 4 * HOUR)

    # --- running ---

    def run(self) -> None:
        """Run to the end; raises Violation if an invariant breaks."""
        while not self.outcome:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Violation(f"not finished after {MAX_STEPS} steps: stuck in {STAGES[self.stage]}")
            self.now += self.rng.randrange(1, 400)
            if self.steps < CALM:
                misfortune.strike(self)
            elif self.steps == CALM:
                for command in (Command(Verb.RESUME), Command(Verb.THROTTLE), Command(Verb.RELEASE)):
                    self.command(command)
            if self.steps % CALM == 0:
                self._land()
            dag.schedule(self)
            self._advance_one()
            self.judge.look()

    def _land(self) -> None:
        """Nothing new comes any more, so that the ingestion ends; what a cured table has forgotten it lands again."""
        if isinstance(self.source, LandingSource):
            self.source.land(self.writers_now, all_of_it=True)

    def _advance_one(self) -> None:
        ready = [p for p in self.processes if not p.ended and p.wakes <= self.now]
        if ready and self.rng.random() < 0.95:
            process = self.rng.choice(ready)
            process.step()
            if process.ended and process.task == self.forgets:
                self.memory.clear()
            self._end_together()
        elif self.orphans and self.rng.random() < 0.5:
            self.target.finish(self.orphans.pop(self.rng.randrange(len(self.orphans))))
        elif not ready:
            self.now += 1000

    def _end_together(self) -> None:
        """An application is one process: its announcer ends with it, and it does not go on without its announcer."""
        for process in self.processes:
            beside = process.announcer
            if beside is None:
                continue
            if process.ended and not beside.ended:
                beside.die()
            elif beside.ended and beside.result is None and not process.ended:
                process.die()
                process.error = beside.error

    def happens(self, fault: str) -> bool:
        happens = self.rng.random() < self.faults.get(fault, 0)
        self.happened[fault] += happens
        return happens

    def write_fault(self) -> str | None:
        if self.steps >= CALM:
            return None
        return next((f for f in ("lost response", "lost request") if self.happens(f)), None)

    def command(self, command: Command) -> None:
        self.commands.append((len(self.commands) + 1, command))

    def process(self, name: str) -> Process | None:
        """The process of an attempt; None if it began just now, or ended long ago."""
        return next((p for p in self.processes if p.name == name), None)

    def processes_begun_before_foreign(self, writer: str) -> bool:
        """Whether the round that just landed may have begun before the foreign commit was there to see.

        At most one round a process: afterwards it must have looked.
        """
        process = self.process(writer)
        if process is None or process.foreign_seen >= self.foreign:
            return False
        process.foreign_seen = self.foreign
        return True

    def knew_of_the_bar(self, writer: str) -> bool:
        """Whether the round that just landed was begun when that was there to see which nobody gets past."""
        process = self.process(writer)
        knew = self.barred and process is not None and process.barred
        if process is not None:
            process.barred = self.barred
        return knew

    # --- what is asked and started ---

    def peek(self) -> gate.Verdict:
        """Ask the gate, as a sensor does at any time, and check that it opens only on committed facts."""
        try:
            state = self.drive(load(self.build))
        except BackfillError as error:
            return gate.Broken(error)
        view = self.source.view(state.plan, state.reached)
        conditions = gate.Conditions(self.lag)
        self.judge.look()
        self.judge.announcements.show(state.seen if self.chain else None)
        decide = gate.decide if self.lag.age is None else gate.decide_by_record
        verdict = decide(state, view, self.commands, conditions, self.now)
        if isinstance(verdict, gate.Ready) and not self.judge.stale:
            committed = self.judge.applied
            if committed is None or verdict.epoch != committed:
                raise Violation(f"the gate opened at {verdict.epoch}, committed is {committed}")
            if self.judge.foreign_at is not None:
                raise Violation("the gate opened on a target that somebody else had changed")
            passed = state.phase in ("catch_up", "finished", "upstream")
            if not passed and self.lag.epochs is not None and self.source.head - committed > self.lag.epochs:
                raise Violation(f"the gate opened {self.source.head - committed} epochs behind")
        return verdict

    def expected(self, epoch: int) -> Bag:
        return self.made(self.source.versions[epoch].rows)

    def made(self, rows: Rows) -> Bag:
        """What a target has to hold of these rows of the source."""
        return Counter((last_records(rows)[0] if self.ordered else transform(rows)).items())

    def drive(self, generator: Any) -> Any:
        """Run a reading of the log to its end without interruption."""
        process = Process(self, "reader", "reader", generator)
        while not process.ended:
            process.step()
        if process.error is not None:
            raise process.error
        return process.result

    def start(self, name: str, twin: bool = False) -> None:
        if twin and sum(not process.ended for process in self.processes) > CROWD:
            return
        self.generation += 1
        me = Attempt(self.generation, f"{name}#{self.generation}")
        stage = name.split("/")[0]
        if twin and stage == "snapshot" and "/" not in name:
            name = f"snapshot/{self.rng.randrange(self.lanes)}"
        if name == "resume":
            self.resumed[me.name] = len(self.commands)
        self.started.append(Started(me.generation, name, self.lanes))
        process = Process(self, me.name, name, protocol_of(self, name, me))
        process.began = self.steps
        process.generation, process.lanes, process.head = me.generation, self.lanes, self.source.head
        process.known = not twin
        self.processes.append(process)
        if self.chain and stage in ("snapshot", "consume_log", "catch_up") and not name.endswith(("/1", "/2")):
            self._announce(process)
        if len([p for p in self.processes if p.ended]) > 60:
            self.processes = [p for p in self.processes if not p.ended or p.known]

    @contextmanager
    def announcing(self, me: Attempt, goal: Goal) -> Iterator[None]:
        """Announce beside an application while it works on a goal: ``start`` has begun that for the first one."""
        process = self.process(me.name)
        if process is not None and self.chain and goal.announces:
            self._announce(process)
        try:
            yield
        finally:
            process = self.process(me.name)
            if process is not None and process.announcer is not None:
                if not process.announcer.ended:
                    process.announcer.die()
                process.announcer = None

    def _announce(self, process: Process) -> None:
        """Another thread of the application announces epochs."""
        me = Attempt(process.generation, f"{process.name}/seen")
        beside = Process(self, me.name, "announce", announcer.announce(me, self.build))
        beside.generation, beside.known = process.generation, False
        process.announcer = beside
        self.processes.append(beside)
