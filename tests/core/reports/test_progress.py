from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given

from airflow_backfill.core.attempts.goals import FinishGoal, ResumeGoal, SnapshotGoal, VerifyGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.model.record import Pending
from airflow_backfill.core.reports.progress import (
    WHOLE,
    Sample,
    Speed,
    percent,
    phase_percent,
    progress,
    seconds_left,
)
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.strategy import strategy_of
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import caught_up, finished, sealed
from tests.core.histories import SEEDS, barriers, random_build, states
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.states import CERTIFICATE, V, planned, state, view
from tests.core.tasks import CATCH_UP, CONSUME, READ
from tests.core.topic_model import TopicModel


@given(SEEDS)
def test_progress_never_falls_and_never_passes_the_whole(seed: int) -> None:
    """Over retries, zombies, lanes, cancels, resumptions, recoveries and a head that moves."""
    model = random_build(seed)
    shown = [progress(one) for one in states(model)]
    recovered = model.state().reached if seed % 2 else None
    model.order(Command(Verb.THROTTLE))
    tasks = [ResumeGoal(len(model.commands)), READ, CONSUME, CATCH_UP, VerifyGoal(), FinishGoal()]
    for task in tasks:
        model.write(times=seed % 7)
        with suppress(NotAllowedNow):
            shown.append(progress(model.run(task)))
    assert shown == sorted(shown) and shown[0] >= 0 and shown[-1] == WHOLE
    if recovered is not None:
        assert progress(Running(model, recover(model.attempt(), recovered)).finish()) == WHOLE


@given(SEEDS)
def test_progress_is_the_same_for_who_reads_the_log_anew(seed: int) -> None:
    model = random_build(seed)
    assert progress(model.state()) == progress(states(model)[-1])


def test_the_whole_is_reached_at_the_hand_off_and_not_before() -> None:
    assert all(
        progress(state(phase)) < WHOLE for phase in Phase if phase.value not in ("snapshot", "finished", "upstream")
    )


def test_the_snapshot_is_measured_in_bytes_and_not_in_files() -> None:
    model = Model([FileSize(900, 1), FileSize(100, 1)], splits=1)
    model.plan()
    model.start(SnapshotGoal(0, 1, RoundSize(1, 10**9))).until(CommitRecord, nth=3)
    assert (percent(model.state()), phase_percent(model.state())) == (72.0, 90.0)


def test_a_snapshot_is_not_read_as_long_as_a_file_is_left() -> None:
    model = Model([FileSize(1, 1)] * 10_000, splits=1)
    model.plan()
    model.start(SnapshotGoal(0, 1, RoundSize(9_999, 10**9))).until(CommitRecord, nth=3)
    assert (percent(model.state()), phase_percent(model.state())) == (79.9, 99.9)


def with_head(applied: int, head: int) -> BuildState:
    seen = Pending(head=head, epochs=head - applied, rows=10, at=0)
    return state(Phase.CONSUME_LOG, Consumed(applied), pending=seen)


STAGES = {
    "planned": (planned(), 0.0, 0.0),
    "read": (state(Phase.SNAPSHOT, Consumed(V)), 80.0, 100.0),
    "nothing pending": (state(Phase.CONSUME_LOG), 90.0, 100.0),
    "half of the log": (with_head(V + 5, V + 10), 85.0, 50.0),
    "more came": (with_head(V + 5, V + 20), 82.5, 25.0),
    "pinned": (state(Phase.CATCH_UP, Consumed(V + 5), handoff=V + 10), 92.5, 27.7),
    "in part": (state(Phase.CATCH_UP, InEpoch(V + 6, 1, 2), handoff=V + 10), 92.7, 30.5),
    "arrived": (state(Phase.CATCH_UP, Consumed(V + 9), handoff=V + 9), 95.0, 55.5),
    "proven": (state(Phase.CATCH_UP, handoff=V, certificate=CERTIFICATE), 99.0, 100.0),
    "finished": (state(Phase.FINISHED, handoff=V), 100.0, 100.0),
    "upstream": (state(Phase.UPSTREAM, Consumed(V + 3), handoff=V), 100.0, 100.0),
}


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_has_its_share(name: str) -> None:
    build, whole, within = STAGES[name]
    assert (percent(build), phase_percent(build)) == (whole, within)


def test_a_head_that_moves_away_takes_nothing_back() -> None:
    build = with_head(V + 5, V + 20)
    kept = replace(build, newest=replace(build.newest, record=replace(build.newest.record, progress=8_900)))
    assert (percent(kept), phase_percent(kept)) == (89.0, 90.0)


def test_a_build_of_an_older_version_is_measured_until_its_next_record() -> None:
    assert STAGES["half of the log"][0].newest.record.progress is None


def test_a_topic_that_grows_takes_nothing_back_and_its_end_is_told() -> None:
    model = TopicModel(60, 30)
    model.plan()
    shown = []
    for _ in range(4):
        attempt = model.start(SnapshotGoal(0, 1, RoundSize(10**9, 20)))
        attempt.until(CommitRecord, nth=3)
        model.produce(0, 15)
        shown.append(percent(model.state()))
    assert shown == sorted(shown) and 0 < shown[0] < shown[-1] < 80
    rounds = [barrier for barrier in reversed(list(barriers(model))) if barrier.record.event is Event.OFFSETS]
    timed = [replace(barrier, at=1_000 * n) for n, barrier in enumerate(reversed(rounds))][::-1]
    speed = Speed.of_barriers(model.state(), timed)
    assert speed is not None and speed.nearing is not None and 0 < speed.nearing < speed.rows
    assert seconds_left(model.state(), None, speed) == round(left(model.state()) / speed.nearing)


def left(build: BuildState) -> int:
    return sum(split.left for split in strategy_of(build.plan).partitions(build).values())


@pytest.mark.parametrize("make", [sealed, caught_up, finished])
def test_a_recovery_takes_nothing_back(make: Callable[..., Model]) -> None:
    model = make(times=3)
    before = progress(model.state())
    after = Running(model, recover(model.attempt(), V + 1)).finish()
    assert (after.phase, progress(after)) == (Phase.CATCH_UP, max(before, 9_500))


def sample(at: int, rows: int = 0, bytes_: int = 0, left: int | None = None, phase: Phase = Phase.SNAPSHOT) -> Sample:
    return Sample(phase, at, rows, bytes_, left)


def test_the_speed_is_what_happened_between_two_samples() -> None:
    speed = Speed.between(sample(1_000, 10, 100, 50), sample(3_000, 30, 500, 20))
    assert speed == Speed(10.0, 200.0, 15.0)
    assert Speed.between(sample(1_000), sample(1_000)) is None
    assert Speed.between(sample(1_000), sample(2_000, phase=Phase.CONSUME_LOG)) is None
    assert Speed.between(sample(1_000, 10), sample(2_000, 5)) is None


def test_the_time_left_of_a_table_goes_by_bytes() -> None:
    build = planned()
    assert seconds_left(build, None, Speed(1.0, build.plan.splits.bytes / 20, None)) == 20
    assert seconds_left(build, None, Speed(1.0, 0.0, None)) is None
    assert seconds_left(build, None, None) is None


def test_the_time_left_of_the_log_counts_what_comes_meanwhile() -> None:
    source = view(V + 30)
    assert seconds_left(state(Phase.CONSUME_LOG), source, Speed(10.0, 0.0, 3.0)) == 10
    assert seconds_left(state(Phase.CONSUME_LOG), source, Speed(10.0, 0.0, -3.0)) is None, "writers are faster"
    assert seconds_left(state(Phase.CONSUME_LOG), view(), Speed(10.0, 0.0, 0.0)) == 0
    assert seconds_left(state(Phase.CONSUME_LOG), None, Speed(10.0, 0.0, 3.0)) is None


def test_the_time_left_to_a_pinned_epoch_does_not() -> None:
    assert seconds_left(state(Phase.CATCH_UP, handoff=V + 20), view(V + 30), Speed(10.0, 0.0, -3.0)) == 2


def test_a_follower_never_ends() -> None:
    assert seconds_left(state(Phase.UPSTREAM, handoff=V), view(V + 30), Speed(10.0, 0.0, 3.0)) is None
