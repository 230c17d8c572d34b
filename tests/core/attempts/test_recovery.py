"""A build whose records are lost, or not to be believed, goes on from an epoch that is named first and proven then."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import (
    CancelGoal,
    ConsumeLogGoal,
    FinishGoal,
    RepairGoal,
    ResumeGoal,
    SnapshotGoal,
)
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import (
    Fenced,
    HistoryLost,
    NotAllowedNow,
    NotPlanned,
    RecordInvalid,
    SourceReplaced,
    TargetContended,
    TargetDiverged,
    VerificationFailed,
)
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.record import Layout, Record
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from tests.core.builds import finished, logged, planned, sealed, upstream, writing
from tests.core.model_target import PATIENCE, ROUND, SOURCE_ID, TARGET_ID, Model
from tests.core.running import Running
from tests.core.tasks import CATCH_UP, CONSUME, FINISH, VERIFY, V, follow


def recovered(model: Model, epoch: int) -> BuildState:
    state: BuildState = Running(model, recover(model.attempt(), epoch)).finish()
    return state


STANDS: dict[str, tuple[Callable[[], Model], int]] = {
    "consume_log": (logged, V + 3),
    "finished": (lambda: finished(times=2), V),
    "upstream": (lambda: upstream(2), V + 2),
}


def lose_records(model: Model) -> None:
    """The log is cleaned up to its head, and a commit of maintenance comes on top."""
    model.foreign("OPTIMIZE", data_change=False)
    model.target.earliest = model.target.head
    with pytest.raises(HistoryLost):
        model.state()


@pytest.mark.parametrize("where", STANDS)
def test_lost_records_are_replaced_by_one_that_has_to_be_proven(where: str) -> None:
    make, epoch = STANDS[where]
    model = make()
    lose_records(model)
    state = recovered(model, epoch)
    assert (state.phase, state.handoff, state.applied, state.certificate) == (Phase.CATCH_UP, epoch, epoch, None)
    assert set(state.positions) == {Consumed(epoch)}
    with pytest.raises(VerificationFailed):
        model.run(FINISH)
    assert model.run(VERIFY).certificate is not None
    assert model.run(FINISH).phase is Phase.FINISHED
    model.write()
    after = model.run(follow(model.source.head))
    assert after.applied == model.source.head
    assert model.works[-1] == fx.ApplyEpochs(EpochRange(epoch + 1, model.source.head + 1))


def test_the_late_plan_of_a_dropped_build_is_not_the_one_to_recover() -> None:
    model = logged()
    model.land_text("dropped/plan", 1, replace(model.draft(), build="dropped", target_id="dropped").encode())
    assert recovered(model, V + 3).plan.build == model.draft().build


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_dag_without_a_proof_does_not_finish_a_named_epoch(cancelled: bool) -> None:
    model, unverified = logged(), FinishGoal(verified=False)
    recovered(model, V + 3)
    if cancelled:
        model.run(CancelGoal())
        for task in (ResumeGoal(0), CONSUME, CATCH_UP):
            model.run(task)
    commits = model.target.head
    with pytest.raises(VerificationFailed, match="verify=True"):
        model.run(unverified)
    assert model.target.head == commits
    model.run(RepairGoal())
    with pytest.raises(VerificationFailed, match="verify=True"):
        model.run(unverified)
    model.run(VERIFY)
    assert model.state().recovered is None
    assert model.run(unverified).phase is Phase.FINISHED


def test_somebody_elses_change_is_lived_down_if_the_rows_are_right() -> None:
    model = finished(times=2)
    model.foreign("RESTORE")
    with pytest.raises(TargetDiverged):
        model.state()
    recovered(model, V)
    model.run(VERIFY)
    assert model.run(FINISH).phase is Phase.FINISHED


def test_a_change_after_the_recovery_counts() -> None:
    model = logged()
    lose_records(model)
    recovered(model, V + 3)
    model.foreign("DELETE")
    with pytest.raises(TargetDiverged):
        model.run(VERIFY)


@pytest.mark.parametrize("nth", [1, 3])
def test_a_change_that_comes_before_the_barrier_of_the_recovery_is_one_for_the_proof(nth: int) -> None:
    """As if it had come before the recovery: the named epoch has to be proven in any case."""
    model = logged()
    lose_records(model)
    running = Running(model, recover(model.attempt(), V + 3))
    running.until(fx.CommitRecord, nth)
    model.foreign("DELETE")
    assert running.finish().recovered == V + 3
    with pytest.raises(VerificationFailed):
        model.run(FINISH)
    model.run(VERIFY)
    assert model.run(FINISH).phase is Phase.FINISHED


def test_a_writer_who_always_comes_first_is_named() -> None:
    model = logged()
    lose_records(model)
    running = Running(model, recover(model.attempt(), V + 3))
    while not running.ended:
        if isinstance(running.waits_at, fx.CommitRecord):
            model.foreign("DELETE")
        running.step()
    assert isinstance(running.error, TargetContended) and "came first" in running.error.message


@pytest.mark.parametrize("expired", [False, True])
def test_an_attempt_from_before_is_fenced(expired: bool) -> None:
    """Also where transaction ids have expired: somebody had set delta.setTransactionRetentionDuration."""
    model = sealed(times=3)
    zombie = model.start(CONSUME)
    while not (isinstance(zombie.waits_at, fx.CommitRecord) and zombie.waits_at.record.event is Event.EPOCHS):
        zombie.step()
    if expired:
        model._txns.clear()
    recovered(model, V)
    works = len(model.works)
    assert zombie.finish().phase is Phase.CATCH_UP, "the log is consumed, by somebody's word"
    assert len(model.works) == works


def test_a_newer_attempt_fences_the_recovery() -> None:
    model = logged()
    running = Running(model, recover(model.attempt(), V + 3))
    running.until(fx.CommitRecord)
    model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=100), PATIENCE))
    with pytest.raises(Fenced):
        running.finish()
    assert model.state().phase is Phase.CONSUME_LOG


def test_a_newer_attempt_of_before_fences_it_as_well() -> None:
    model = logged()
    older = model.attempt()
    model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=100), PATIENCE))
    commits = len(model.target.commits)
    with pytest.raises(Fenced):
        Running(model, recover(older, V + 3)).finish()
    assert len(model.target.commits) == commits


def test_orders_of_before_are_over() -> None:
    model = logged()
    model.order(Command(Verb.PAUSE))
    model.order(Command(Verb.CANCEL))
    state = recovered(model, V + 3)
    assert state.control == Control(2, paused=True), "a pause is lifted by its own command, a cancel is over"
    model.order(Command(Verb.RESUME))
    assert model.run(VERIFY).certificate is not None
    model.order(Command(Verb.HOLD))
    assert model.run(FINISH).phase is Phase.FINISHED


def test_what_was_counted_and_what_was_ordered_outlive_a_recovery() -> None:
    model = upstream(2)
    model.order(Command(Verb.HOLD))
    model.order(Command(Verb.THROTTLE, rate=50_000))
    model.order(Command(Verb.PAUSE))
    before = model.state().totals
    model.foreign("RESTORE")
    state = recovered(model, V + 2)
    assert state.totals == before and before.upstream_rows > 0
    assert state.control == Control(3, paused=True, rate=50_000, held=True)
    model.order(Command(Verb.RESUME))
    model.run(VERIFY)
    model.run(FINISH)
    model.write()
    assert model.run(follow(model.source.head)).totals.upstream_rows > before.upstream_rows


@pytest.mark.parametrize("wrong", [{"totals": {"log_rows": -50}}, {"plan": "0" * 32}])
def test_what_was_counted_is_found_below_a_record_that_cannot_be_read(wrong: dict[str, Any]) -> None:
    model = upstream(2)
    state, newest = model.state(), model.records()[-1]
    damaged = {**newest.to_json(), "seq": newest.seq + 1, **wrong}
    model.land_text(newest.app_id, newest.seq + 1, json.dumps(damaged))
    with pytest.raises(RecordInvalid):
        model.state()
    assert recovered(model, V + 2).totals == state.totals


def test_a_snapshot_that_lanes_were_reading_goes_on_as_one_to_be_repaired() -> None:
    model = _read_in_part()
    zombies = [model.start(SnapshotGoal(lane, 2, ROUND)) for lane in range(2)]
    for zombie in zombies:
        zombie.until(fx.CommitRecord, 2)
    state = recovered(model, V)
    assert (state.layout, state.phase, state.handoff) == (Layout(3, 1), Phase.CATCH_UP, V)
    works = len(model.works)
    for zombie in zombies:
        assert zombie.finish().phase is Phase.CATCH_UP
    assert len(model.works) == works, "rows of a lane that was fenced landed"
    model.run(RepairGoal())
    model.run(VERIFY)
    assert model.run(FINISH).phase is Phase.FINISHED


def test_a_lane_that_lands_before_its_fence_is_fenced_again() -> None:
    model = _read_in_part()
    zombie = model.start(SnapshotGoal(1, 2, ROUND))
    write = zombie.until(fx.CommitRecord, 2)
    recovering = Running(model, recover(model.attempt(), V))
    recovering.until(fx.CommitRecord)
    model.answer(write)
    assert recovering.finish().layout == Layout(4, 1), "what was fenced before is left behind, too"


def test_a_task_after_a_recovery_that_was_killed_says_soon_what_to_do() -> None:
    model = _read_in_part()
    recovering = Running(model, recover(model.attempt(), V))
    while not isinstance(recovering.until(fx.CommitRecord).record, Record):
        recovering.step()
    began = model.now
    with pytest.raises(TargetContended, match="recover"):
        model.run(SnapshotGoal(1, 2, ROUND))
    assert model.now - began < 60_000
    assert recovered(model, V).phase is Phase.CATCH_UP


@pytest.mark.parametrize("lost", range(64))
def test_fences_that_get_lost_are_written_again_whichever_of_them_landed(lost: int) -> None:
    """Also that of a lane of which the log tells nothing, where later fences make its layout look like an old one."""
    model = planned(lanes=3)
    model.start(SnapshotGoal(0, 3, ROUND)).until(fx.CommitRecord, 2)
    late = [model.start(SnapshotGoal(lane, 3, ROUND)) for lane in range(3)]
    for zombie in late:
        zombie.until(fx.CommitRecord)
    recovering = Running(model, recover(model.attempt(), V))
    for fence in range(6):
        write = recovering.until(fx.CommitRecord)
        recovering.step(fx.CommitOutcome() if lost >> fence & 1 else model.answer(write))
    recovering.finish()
    works = len(model.works)
    for zombie in late:
        assert zombie.finish().phase is Phase.CATCH_UP
    assert len(model.works) == works, "a lane that was fenced went on"


def test_a_lane_that_has_not_begun_is_fenced_as_well() -> None:
    model = planned(lanes=3)
    model.start(SnapshotGoal(0, 3, ROUND)).until(fx.CommitRecord, 2)
    late = writing(model, SnapshotGoal(2, 3, ROUND))
    recovered(model, V)
    assert late.finish().phase is Phase.CATCH_UP
    assert model.state().layout == Layout(3, 1)


def test_recovering_twice_says_it_twice() -> None:
    model = logged()
    first, second = recovered(model, V + 3), recovered(model, V + 3)
    assert second.newest is not None and first.newest is not None
    assert second.newest.version > first.newest.version and second.positions == first.positions


def test_a_lost_answer_is_found_in_the_log() -> None:
    model = logged()
    running = Running(model, recover(model.attempt(), V + 3))
    write = running.until(fx.CommitRecord)
    model.answer(write)
    running.step(fx.CommitOutcome(conflict="the answer was lost"))
    assert running.finish().phase is Phase.CATCH_UP
    assert [r.event for r in model.records()].count(Event.RECOVER) == 1


def _read_in_part() -> Model:
    model = planned(lanes=2)
    for lane in range(2):
        model.start(SnapshotGoal(lane, 2, ROUND)).until(fx.CommitRecord, 2)
    return model


def _another_table() -> Model:
    model = logged()
    metadata = model.target.read(0).metadata
    assert metadata is not None and metadata.table_id == TARGET_ID
    model.foreign("CREATE OR REPLACE TABLE", metadata=replace(metadata, table_id="another"))
    return model


def _another_source() -> Model:
    model = logged()
    model.alter(table_id=f"not {SOURCE_ID}")
    return model


def _another_copy() -> Model:
    model = logged()
    assert model.stored_plan is not None
    model.stored_plan = replace(model.stored_plan, settings={"spark.sql.ansi.enabled": "false"})
    return model


REFUSED = {
    "no build": (Model, V, NotPlanned),
    "an epoch before the snapshot's": (logged, V - 1, NotAllowedNow),
    "an epoch that is not there yet": (logged, V + 9, NotAllowedNow),
    "another table": (_another_table, V, NotAllowedNow),
    "another source": (_another_source, V, SourceReplaced),
    "a copy of another plan": (_another_copy, V, RecordInvalid),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_recovered_is_refused_and_nothing_is_written(case: str) -> None:
    make, epoch, error = REFUSED[case]
    model = make()
    head = model.target.head
    with pytest.raises(error):
        recovered(model, epoch)
    assert model.target.head == head


def test_a_repair_is_one_commit_that_has_to_be_proven() -> None:
    model = logged()
    model.foreign("UPDATE")
    recovered(model, V + 3)
    state = model.run(RepairGoal())
    assert (state.phase, state.applied, state.certificate) == (Phase.CATCH_UP, V + 3, None)
    assert model.works[-1] == fx.RewriteKeys(V + 3)
    with pytest.raises(VerificationFailed):
        model.run(FINISH)
    works = len(model.works)
    model.run(RepairGoal())
    assert len(model.works) == works, "a retry of a repair that is done wrote again"
    assert model.run(VERIFY).certificate is not None
    model.run(RepairGoal())
    assert model.records()[-1].event is Event.CERTIFY, "what is proven is not repaired"


def test_a_verification_that_fails_again_may_be_repaired_again() -> None:
    model = logged()
    recovered(model, V + 3)
    model.run(RepairGoal())
    verifying = model.start(VERIFY)
    verifying.until(fx.VerifyTarget)
    with pytest.raises(VerificationFailed):
        verifying.step(VerificationFailed("still wrong"))
        verifying.finish()
    model.run(RepairGoal())
    assert [r.event for r in model.records()].count(Event.REPAIR) == 2


def test_there_is_nothing_to_repair_before_the_hand_off_epoch() -> None:
    with pytest.raises(NotAllowedNow):
        logged().run(RepairGoal())
