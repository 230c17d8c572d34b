"""One simulated world under one seed: tables, attempts, Airflow, and the faults that this seed switches on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.attempts import announcer
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.gates import gate
from airflow_backfill.core.kafka.offsets import MAX, Offsets
from airflow_backfill.core.model.plan import Plan, build_id
from airflow_backfill.core.state.load import load
from airflow_backfill.core.strategies.chain import unannounced
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from tests.simulation import misfortune
from tests.simulation.draft import draft
from tests.simulation.faults import (
    AFTERWARDS,
    BENIGN,
    CALM,
    CURABLE,
    ENDS,
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

MAX_STEPS = 20000
CROWD = 40
"""Processes beside which nobody starts another one for no reason: they share the steps."""


RUNS = 4
"""How often an ordered build is followed to the end of what landed."""


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
    """What somebody runs instead of the DAG: "recover" from the epoch ``named``, or "repair"."""
    named: int = 0
    resumed: dict[str, int] = field(default_factory=dict)
    """By attempt that resumes a cancelled build: the newest command that there was."""
    cleaned: int = -1
    """The step at which the target's log was cleaned up last."""
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
        self.aging = random.Random(f"aging {self.seed}")
        self.ages = self.aging.random() < 0.2
        """Whether the target's log is cleaned up far too early."""
        self.storm = random.Random(f"storm {self.seed}").random() < 0.1
        """Whether epochs come faster than they are applied, once the snapshot is read."""
        self.calmed = False
        """Whether somebody has seen to it that no more come."""
        self.patience = 3 if self.storm else 50
        """Rounds in a row that may leave more pending than the bound allows."""
        self._begin()

    def _begin(self) -> None:
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
        older = random.Random(f"older {self.seed}")
        if self.fatal != "expire" and not self.source.noted:
            if older.random() < 0.3:
                self.source.expire(self.source.partitions)
            if older.random() < 0.4:
                self.faults["retention"] = RETENTION

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
            self._schedule()
            self._advance_one()
            self.judge.look()

    def _land(self) -> None:
        """Nothing new comes any more, so that the ingestion ends; what a cured table has forgotten it lands again."""
        if isinstance(self.source, LandingSource):
            self.source.land(self.now, all_of_it=True)

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

    def processes_begun_before_foreign(self, writer: str) -> bool:
        """Whether the round that just landed may have begun before the foreign commit was there to see.

        At most one round a process: afterwards it must have looked.
        """
        process = next((p for p in self.processes if p.name == writer), None)
        if process is None or process.foreign_seen >= self.foreign:
            return False
        process.foreign_seen = self.foreign
        return True

    def knew_of_the_bar(self, writer: str) -> bool:
        """Whether the round that just landed was begun when that was there to see which nobody gets past."""
        process = next((p for p in self.processes if p.name == writer), None)
        knew = process is not None and process.barred
        if process is not None:
            process.barred = self.barred
        return knew

    # --- Airflow ---

    def _schedule(self) -> None:
        stage = STAGES[self.stage]
        if self.by_hand:
            self._run_by_hand()
            return
        if stage == "gate":
            self._gate()
            return
        known = [p for p in self.processes if p.known and p.task.split("/")[0] == stage]
        lanes = [f"snapshot/{n}" for n in range(self.lanes)] if stage == "snapshot" else [stage]
        if stage == "snapshot" and self.steps < CALM and self.happens("lanes") and self.happens("twin"):
            self.lanes = self.rng.choice([1, 2, 3])
            for process in known:
                process.known = False
            return
        results = []
        for lane in lanes:
            mine = [p for p in known if p.task == lane]
            if not mine or (mine[-1].ended and mine[-1].result is None):
                if mine and mine[-1].error is not None and self._is_final(mine[-1]):
                    return
                self.start(lane)
            elif mine[-1].ended:
                results.append(mine[-1].result)
        if len(results) == len(lanes):
            self._passed(stage, results)

    def _passed(self, stage: str, results: list[Any]) -> None:
        if stage == "consume_log":
            self.judge.check_announced(max(p.head for p in self.processes if p.known and p.task == stage))
        if stage == "finish" and not self.judge.finished:
            raise Violation("finish succeeded without an effective hand-off record")
        if stage == "upstream":
            self.judge.check_end()
            self._followed()
        else:
            self.stage += 1

    def _followed(self) -> None:
        """Keys that are in several partitions go on coming, in no order."""
        self.runs += 1
        if not self.ordered or self.runs == RUNS:
            self.outcome = "DONE"
            return
        self.source.write(self.now)
        for process in self.processes:
            process.known = False

    def _is_final(self, process: Process) -> bool:
        """Decide about an attempt of Airflow's that ended with an error: retry, or the end of the build."""
        error = process.error
        assert error is not None
        process.known = False
        if error.code == "CANCELLED" or (error.code == "NOT_ALLOWED_NOW" and self.judge.cancelled):
            self._resume()
            return True
        self._check_error(process, error)
        if error.retry or error.code == "FENCED" or self.judge.between(process.name):
            return False
        slept = process.began <= self.cleaned or (process.outlived and not self.target.outlived)
        if error.code == "HISTORY_LOST" and slept and "of the target's log" in error.message:
            return False  # it slept while the log was cleaned up, or read what a sleeper had left, and is cleared
        if self.fatal == "put back" and error.code == ENDS[self.fatal] and not self.judge.stale:
            raise Violation(f"all that was applied is in the history that is there, but {process.task} ended: {error}")
        if self.fatal_done and error.code in (ENDS.get(self.fatal or ""), "VERIFICATION_FAILED"):
            self.outcome = "" if self._put_right() or self._rewritten() or self._removed() else error.code
        elif error.code == "HISTORY_LOST" and self.target.outlived:
            self.outcome = error.code
        elif error.code == "NOT_CONVERGING" and (self.storm or self.write_rate):
            self._calmed(error)
        elif isinstance(self.source, LandingSource) and self._topic_ended(error, self.source):
            self.outcome = error.code
        else:
            raise Violation(f"{process.task} failed without a cause: {error}")
        return True

    def _check_error(self, process: Process, error: BackfillError) -> None:
        """Raise for an error that nothing excuses."""
        if error.code == "FENCED" and not self._rivals(process):
            raise Violation(f"the attempt that Airflow knows was fenced: {error}")
        if error.code == "INTERRUPTED":
            raise Violation(f"{process.task} ended by a command that only stops a round: {error}")

    def _topic_ended(self, error: BackfillError, source: LandingSource) -> bool:
        """Whether the topic or its ingestion has brought about what the error says."""
        match error.code:
            case "KAFKA_LOST":
                return bool(self.happened["retention"]) and self._may_be_lost(**error.data)
            case "PARTITION_INCOMPLETE":
                return source.joined_late
            case "PARTITIONS_GREW":
                return bool(self.keyed) and not self.ordered and bool(self.judge.partitions.grown)
            case _:
                return False

    def _may_be_lost(self, partition: int, wanted: int, have: int, **_: int) -> bool:
        """Whether the landing table does not show that it has all, or what it has cannot be read any more."""
        assert isinstance(self.source, LandingSource)
        landed = self.source.kept(partition, Offsets(0, MAX), self.source.head)
        return self.fatal_done or not landed or landed[0] > wanted or landed[-1] < have - 1

    def _rivals(self, process: Process) -> bool:
        """Whether Airflow itself started a newer attempt that competes with this one: a twin, a clear, other
        lanes.
        """
        return any(
            rival.generation > process.generation
            and (rival.task == process.task or rival.task.split("/")[0] != "snapshot" or rival.lanes != process.lanes)
            for rival in self.started
        )

    def _resume(self) -> None:
        if not any(p.task == "resume" and not p.ended for p in self.processes):
            self.start("resume")
        self.stage = 1
        for process in self.processes:
            process.known = process.known and process.task == "resume"

    def peek(self) -> gate.Verdict:
        """Ask the gate, as a sensor does at any time, and check that it opens only on committed facts."""
        try:
            state = self._drive(load(self.build))
        except BackfillError as error:
            return gate.Broken(error)
        view = self.source.view(state.plan, state.reached)
        conditions = gate.Conditions(gate.MaxLag(epochs=self.max_lag))
        self.judge.look()
        self.judge.show(state.seen if self.chain else None)
        verdict = gate.decide(state, view, self.commands, conditions, self.now)
        if isinstance(verdict, gate.Ready) and not self.judge.stale:
            committed = self.judge.applied
            if committed is None or verdict.epoch != committed:
                raise Violation(f"the gate opened at {verdict.epoch}, committed is {committed}")
            if self.judge.foreign_at is not None:
                raise Violation("the gate opened on a target that somebody else had changed")
            passed = state.phase in ("catch_up", "finished", "upstream")
            if not passed and self.source.head - committed > self.max_lag:
                raise Violation(f"the gate opened {self.source.head - committed} epochs behind")
        return verdict

    def _gate(self) -> None:
        match self.peek():
            case gate.Ready():
                self.stage += 1
            case gate.Broken(error):
                self._gate_broken(error)
            case gate.Waiting(_, lag) if lag or self._unannounced():
                self.stage = STAGES.index("consume_log")
                for process in self.processes:
                    process.known = process.known and process.task != "consume_log"

    def _unannounced(self) -> bool:
        state = self._drive(load(self.build))
        return unannounced(state, self.source.view(state.plan, state.reached))

    def _gate_broken(self, error: BackfillError) -> None:
        if error.code == "CANCELLED":
            self._resume()
        elif self.fatal_done and error.code == ENDS.get(self.fatal or ""):
            self.outcome = "" if self._put_right() or self._removed() else error.code
        elif error.code == "HISTORY_LOST" and self.target.outlived:
            self.outcome = error.code
        else:
            raise Violation(f"the gate broke without a cause: {error}")

    def _put_right(self) -> bool:
        """Whether somebody makes the target's rows right, to go on from a named epoch: mostly the right one."""
        self.judge.look()
        epoch, pinned = self.judge.applied, self.pinned
        epoch = pinned if epoch is None else epoch
        if self.judge.foreign_at is None or self.misnamed or not self.judge.can_be_recovered:
            return False
        if epoch is None or pinned is None or not self.happens("recovery"):
            return False
        if not self.happens("left wrong"):
            self.target.put_right(self._expected(epoch))
        wrong = epoch > pinned and self.happens("wrong epoch")
        self.by_hand, self.named = "recover", epoch - 1 if wrong else epoch
        self.misnamed = self.target.content != self._expected(self.named)
        for process in self.processes:
            process.known = False
        return True

    def _calmed(self, error: BackfillError) -> None:
        """Mostly somebody slows the writers down, and clears the task."""
        if not self.happens("cure"):
            self.outcome = error.code
            return
        self.storm, self.write_rate, self.calmed = False, 0.0, True
        for writes in ("source optimize", "repeat"):
            self.faults.pop(writes, None)
        self._cleared()

    def _removed(self) -> bool:
        """Whether somebody removes what ended the build and clears its tasks, or drops the target and plans again."""
        if self.fatal in CURABLE and self.happens("cure"):
            self.source.cure()
            if self.target.rules:
                self.target.rule()
            self.barred = False
            self._cleared()
        elif not self.topic and self.happens("restart"):
            self._restart()
        else:
            return False
        self.fatal = None
        return True

    def _cleared(self) -> None:
        """What has failed meanwhile runs again, too."""
        for process in self.processes:
            process.known = process.known and not process.ended

    def _restart(self) -> None:
        """A cancel fences whoever still runs; then the target is dropped, and another build begins in its place."""
        for process in self.processes:
            if not process.ended:
                process.die()
        self.target = Target(table_id=f"target after {self.target.table_id}")
        self.source.cure()
        self.orphans, self.processes, self.commands, self.stored_plan, self.pinned = [], [], [], None, None
        self.by_hand, self.misnamed, self.foreign, self.stage, self.barred = "", False, 0, 0, False
        self._begin()

    def _expected(self, epoch: int) -> Bag:
        return self.made(self.source.versions[epoch].rows)

    def made(self, rows: Rows) -> Bag:
        """What a target has to hold of these rows of the source."""
        return Counter((last_records(rows)[0] if self.ordered else transform(rows)).items())

    def _rewritten(self) -> bool:
        """Whether somebody lets the keys be rewritten that a verification found to differ."""
        self.judge.look()
        if self.judge.foreign_at is None and self.judge.unproven and self.happens("repair"):
            self.by_hand = "repair"
        return bool(self.by_hand)

    def _run_by_hand(self) -> None:
        """Start it again until it is done; then the DAG goes on with the verification."""
        mine = [p for p in self.processes if p.known and p.task == self.by_hand]
        if not mine:
            self.start(self.by_hand)
        elif mine[-1].ended:
            error, mine[-1].known = mine[-1].error, False
            if mine[-1].result is not None:
                self.by_hand, self.stage = "", STAGES.index("verify")
            elif error is not None and not error.retry and error.code not in ("FENCED", "TARGET_DIVERGED"):
                raise Violation(f"{self.by_hand} failed without a cause: {error}")

    def _drive(self, generator: Any) -> Any:
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

    def _announce(self, process: Process) -> None:
        """Another thread of the application announces epochs."""
        me = Attempt(process.generation, f"{process.name}/seen")
        beside = Process(self, me.name, "announce", announcer.announce(me, self.build))
        beside.generation, beside.known = process.generation, False
        process.announcer = beside
        self.processes.append(beside)
