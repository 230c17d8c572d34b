"""Whole histories of builds: random ones, and the states that their barriers fold into."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from airflow_backfill.core.attempts.goals import (
    CancelGoal,
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    ResumeGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.state.effect import FileSize
from airflow_backfill.core.state.replay import apply, from_last
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals
from tests.core.model_target import PATIENCE, Model
from tests.core.states import V

SMALL = RoundSize(bytes=200, rows=6)


def barriers(model: Model) -> Iterator[Barrier]:
    for version in range(model.target.head + 1):
        commit = model.target.read(version)
        record = barrier_record(commit)
        if record is not None:
            yield Barrier.of(commit, record)


def states(model: Model) -> list[BuildState]:
    """The state after every barrier of the target's log, beginning with the plan."""
    assert model.stored_plan is not None
    found = [BuildState.planned(model.stored_plan)]
    for barrier in barriers(model):
        found.append(apply(found[-1], barrier))
    return found


def random_build(seed: int) -> Model:
    """A build by attempts that are begun, given up and begun again, in whatever order the tasks allow."""
    rng = random.Random(seed)
    files = [FileSize(rng.randrange(1, 150), rng.randrange(12)) for _ in range(rng.choice([0, 1, 3, 8]))]
    model = Model(files, splits=rng.randrange(1, 5))
    model.plan(lanes=rng.choice([1, 1, 2, 3]))
    for _ in range(rng.randrange(4, 40)):
        for _ in range(rng.randrange(3)):
            rng.choice([lambda: model.write(rng.randrange(15)), model.optimize])()
        if rng.random() < 0.2:
            model.order(rng.choice([Command(Verb.HOLD), Command(Verb.RELEASE), Command(Verb.THROTTLE, 50)]))
        lanes = rng.choice([1, 1, 2, 3])
        task = rng.choice(
            [
                SnapshotGoal(rng.randrange(lanes), lanes, SMALL),
                SnapshotGoal(0, 1, SMALL),
                ConsumeLogGoal(SMALL, MaxLag(epochs=rng.randrange(3)), PATIENCE),
                CatchUpGoal(SMALL, MaxLag(epochs=rng.randrange(3)), PATIENCE),
                VerifyGoal(),
                FinishGoal(),
                FinishGoal(verified=False),
                UpstreamGoal(SMALL, upto=model.source.head),
                CancelGoal(),
                ResumeGoal(len(model.commands)),
            ]
        )
        attempt = model.start(task)
        for _ in range(rng.choice([5, 15, 10**6])):
            if attempt.ended:
                break
            attempt.step()
    return model


SEEDS = st.integers(0, 10**9)


def after(state: BuildState, lane: int, event: Event, **changes: Any) -> Barrier:
    """The barrier that the lane's owner would write next, but for the changes."""
    last = state.lanes[lane]
    assert last is not None and state.newest is not None
    record = replace(
        last.record, seq=last.record.seq + 1, prev=state.newest.version, event=event, positions=state.positions,
        totals=last.totals, work=Totals(), epochs=None, bound=state.bound, handoff=state.handoff,
        certificate=state.certificate,
    )  # fmt: skip
    return Barrier(state.newest.version + 1, 0, replace(record, **changes), 0)


def resumed(state: BuildState, **changes: Any) -> BuildState:
    """The build as it is read back from its newest record, but for the changes."""
    assert state.newest is not None
    barrier = replace(state.newest, record=replace(state.newest.record, **changes))
    return from_last(state.plan, (barrier,), state.proven)


SEALED = Model().sealed()
CAUGHT_UP = Model().caught_up()
HALF = Model()
HALF.plan()
HALF.run(SnapshotGoal(0, 1, RoundSize(200, 1_000)))
HALF_READ = states(HALF)[2]
BEGUN = next(s for s in states(HALF) if s.positions[0] == Consumed(V))
