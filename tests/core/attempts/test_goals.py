from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.attempt import decided
from airflow_backfill.core.attempts.goals import (
    THROTTLED,
    CancelGoal,
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    Goal,
    ResumeGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.errors import (
    BackfillError,
    Cancelled,
    InvalidSpec,
    NotAllowedNow,
    NotConverging,
    SourceReplaced,
    VerificationFailed,
)
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state.effect import FileSize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Certify, Changes, Done, Move, Observed, Wait
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from tests.core.states import CERTIFICATE, V, planned, state, view

SIZE = RoundSize(10**9, 10**9)
NO_LAG = MaxLag(epochs=0)
FILES = (FileSize(1, 1),) * 6
TASKS: dict[str, Goal] = {
    "snapshot": SnapshotGoal(0, 1, SIZE),
    "consume_log": ConsumeLogGoal(SIZE, NO_LAG, 3),
    "catch_up": CatchUpGoal(SIZE, NO_LAG, 3),
    "verify": VerifyGoal(),
    "finish": FinishGoal(),
    "unverified finish": FinishGoal(verified=False),
    "upstream": UpstreamGoal(SIZE),
    "cancel": CancelGoal(),
    "resume": ResumeGoal(0),
}
SITUATIONS: dict[str, BuildState] = {
    "planned": planned(),
    "half read": state(Phase.SNAPSHOT, Consumed(V), AtFile(1), AtFile(0)),
    "read": state(Phase.SNAPSHOT, Consumed(V)),
    "sealed": state(Phase.CONSUME_LOG),
    "in an epoch": state(Phase.CONSUME_LOG, InEpoch(8, 1, 2)),
    "pinned": state(Phase.CATCH_UP, handoff=9),
    "arrived": state(Phase.CATCH_UP, handoff=V),
    "certified": state(Phase.CATCH_UP, handoff=V, certificate=CERTIFICATE),
    "finished": state(Phase.FINISHED, handoff=V, certificate=CERTIFICATE),
    "upstream": state(Phase.UPSTREAM, Consumed(12), handoff=V, certificate=CERTIFICATE),
    "cancelled": state(Phase.CANCELLED, Consumed(V), AtFile(1), AtFile(0), control=Control(1, cancelled=True)),
}
GO, DONE = "go", "done"
EARLY, WRONG, NO_PROOF = NotAllowedNow.code, NotAllowedNow.code, VerificationFailed.code
GONE = Cancelled.code
COLUMNS = tuple(TASKS)
TABLE: dict[str, tuple[str, ...]] = {
    #               snapshot consume catch  verify finish    unverified upstream cancel resume
    "planned":     (GO,      EARLY,  EARLY, EARLY, EARLY,    EARLY,     EARLY,   GO,    DONE),
    "half read":   (GO,      EARLY,  EARLY, EARLY, EARLY,    EARLY,     EARLY,   GO,    DONE),
    "read":        (DONE,    GO,     EARLY, EARLY, EARLY,    EARLY,     EARLY,   GO,    DONE),
    "sealed":      (DONE,    GO,     GO,    EARLY, EARLY,    EARLY,     EARLY,   GO,    DONE),
    "in an epoch": (DONE,    GO,     GO,    EARLY, EARLY,    EARLY,     EARLY,   GO,    DONE),
    "pinned":      (DONE,    DONE,   GO,    EARLY, NO_PROOF, EARLY,     EARLY,   GO,    DONE),
    "arrived":     (DONE,    DONE,   DONE,  GO,    NO_PROOF, GO,        EARLY,   GO,    DONE),
    "certified":   (DONE,    DONE,   DONE,  DONE,  GO,       GO,        EARLY,   GO,    DONE),
    "finished":    (DONE,    DONE,   DONE,  DONE,  DONE,     DONE,      GO,      WRONG, DONE),
    "upstream":    (DONE,    DONE,   DONE,  DONE,  DONE,     DONE,      GO,      WRONG, DONE),
    "cancelled":   (GONE,    GONE,   GONE,  GONE,  GONE,     GONE,      GONE,    DONE,  GO),
}  # fmt: skip


def verdict(task: Goal, build: BuildState) -> str:
    """As an attempt asks: first whether it is done, then whether its turn has come."""
    if task.done(build):
        return DONE
    try:
        task.check(build)
    except BackfillError as error:
        return error.code
    return GO


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_task_knows_whether_its_turn_has_come_and_whether_it_is_over(situation: str) -> None:
    build = SITUATIONS[situation]
    assert {name: verdict(task, build) for name, task in TASKS.items()} == dict(
        zip(COLUMNS, TABLE[situation], strict=True)
    )


def test_the_phases_are_all_in_the_table() -> None:
    assert {build.phase for build in SITUATIONS.values()} == set(Phase)


def test_a_refusal_names_the_phase_and_the_task_to_run() -> None:
    with pytest.raises(NotAllowedNow, match="or catch_up, but it is in snapshot: run the consume_log task") as raised:
        TASKS["catch_up"].check(SITUATIONS["read"])
    assert raised.value.data == {"phase": "snapshot"}
    with pytest.raises(NotAllowedNow, match="clear the snapshot task with the tasks after it"):
        TASKS["consume_log"].check(SITUATIONS["planned"])


def outcome(goal: Goal, state: BuildState, observed: Observed) -> Any:
    """What the goal's next step comes to, where nothing has to be asked for."""
    deciding = decided(state, goal.lane, observed, goal.step(state, observed), begins=False)
    with pytest.raises(StopIteration) as raised:
        next(deciding)
    return raised.value.value


def seen(head: int = V, after: int = V, *, now: int = 0, control: Control | None = None, rows: int = 1) -> Observed:
    return Observed(now, view(head, after, rows=rows), control or Control(), FILES)


# --- snapshot and log ---


def test_the_snapshot_reads_smaller_rounds_under_a_throttle() -> None:
    task = SnapshotGoal(0, 1, RoundSize(10**9, 4))
    build = SITUATIONS["planned"]
    free, stopped = outcome(task, build, seen()), outcome(task, build, seen(control=Control(rate=0)))
    assert isinstance(free, Move) and free.rows == 4
    assert isinstance(stopped, Wait)
    tight = outcome(
        SnapshotGoal(0, 1, RoundSize(10**9, 100)),
        build,
        replace(seen(control=Control(rate=1)), files=(FileSize(1, 3),) * 6),
    )
    assert isinstance(tight, Move) and tight.rows == 6


def test_the_seal_fixes_the_bound_at_what_is_pending() -> None:
    step = outcome(TASKS["consume_log"], SITUATIONS["read"], seen(V + 9))
    assert step == Move(Event.SEAL, changes=Changes(bound=Bound.initial(9)))


def test_a_resumed_build_is_sealed_where_it_stands() -> None:
    resumed = state(Phase.SNAPSHOT, Consumed(9), control=Control(2))
    assert outcome(TASKS["consume_log"], resumed, seen(12, after=9)) == Move(
        Event.SEAL, changes=Changes(bound=Bound.initial(3))
    )


@pytest.mark.parametrize("head", [V, V + 2])
def test_consuming_the_log_ends_within_the_bound(head: int) -> None:
    task = ConsumeLogGoal(SIZE, MaxLag(epochs=2), 3)
    assert outcome(task, SITUATIONS["sealed"], seen(head)) == Done()


def test_an_epoch_in_part_is_finished_before_the_log_counts_as_consumed() -> None:
    task = ConsumeLogGoal(SIZE, MaxLag(epochs=5), 3)
    assert isinstance(outcome(task, SITUATIONS["in an epoch"], seen(8)), Move)


@pytest.mark.parametrize("event", [Event.SEAL, Event.EPOCHS, Event.CLAIM, Event.MARK])
def test_each_round_that_claims_epochs_moves_the_bound_whatever_was_written_before(event: Event) -> None:
    one_each = ConsumeLogGoal(RoundSize(10**9, 1), NO_LAG, 3)
    build = state(Phase.CONSUME_LOG, event=event, bound=Bound(9, 9))
    step = outcome(one_each, build, seen(V + 5))
    assert isinstance(step, Move) and step.changes == Changes(bound=Bound(9, 9, 0, least=5))
    again = state(Phase.CONSUME_LOG, event=event, bound=Bound(9, 9, 0, least=5))
    step = outcome(one_each, again, seen(V + 5))
    assert isinstance(step, Move) and step.changes == Changes(bound=Bound(9, 5, 0, least=5))


def test_only_the_last_part_of_an_epoch_moves_the_bound() -> None:
    for done, changes in ((1, Changes()), (2, Changes(bound=Bound(9, 9, 0, least=2)))):
        build = state(Phase.CONSUME_LOG, InEpoch(8, done, 3), bound=Bound(9, 9))
        step = outcome(TASKS["consume_log"], build, seen(V + 2))
        assert isinstance(step, Move) and step.changes == changes


def test_after_the_pin_the_bound_stays() -> None:
    build = state(Phase.CATCH_UP, handoff=9, bound=Bound(9, 9))
    step = outcome(TASKS["catch_up"], build, seen(12))
    assert isinstance(step, Move) and step.changes == Changes()


@pytest.mark.parametrize("name", ["consume_log", "catch_up"])
def test_a_log_that_does_not_contract_ends_with_numbers(name: str) -> None:
    build = state(Phase.CONSUME_LOG, bound=Bound(9, 1, stalled=3))
    with pytest.raises(NotConverging) as raised:
        outcome(TASKS[name], build, seen(V + 30))
    assert raised.value.data == {"pending": 30, "bound": 1, "start": 9, "rounds": 3, "throttled": False}


def test_a_throttle_is_named_when_the_log_does_not_contract() -> None:
    """After as much time as without one: its rounds are short."""
    looked = seen(V + 30, control=Control(rate=1))
    patient = state(Phase.CONSUME_LOG, bound=Bound(9, 1, stalled=3 * THROTTLED - 1))
    assert isinstance(outcome(TASKS["consume_log"], patient, looked), Move)
    build = state(Phase.CONSUME_LOG, bound=Bound(9, 1, stalled=3 * THROTTLED))
    with pytest.raises(NotConverging, match="throttle"):
        outcome(TASKS["consume_log"], build, looked)


# --- catch-up ---


def test_the_hand_off_epoch_is_the_head_at_the_moment_of_the_pin() -> None:
    task = CatchUpGoal(SIZE, MaxLag(epochs=2), 3)
    assert outcome(task, SITUATIONS["sealed"], seen(V + 2)) == Move(Event.PIN, changes=Changes(handoff=V + 2))


def test_nothing_is_pinned_inside_an_epoch() -> None:
    for head in (8, 9):
        step = outcome(CatchUpGoal(SIZE, MaxLag(epochs=9), 3), SITUATIONS["in an epoch"], seen(head))
        assert isinstance(step, Move) and step.event is Event.EPOCHS


@pytest.mark.parametrize("head", [9, 10, 40])
def test_catch_up_stops_exactly_at_the_hand_off_epoch(head: int) -> None:
    step = outcome(TASKS["catch_up"], SITUATIONS["pinned"], seen(head))
    assert isinstance(step, Move) and step.positions == (Consumed(9),) * 3
    assert TASKS["catch_up"].done(state(Phase.CATCH_UP, Consumed(9), handoff=9))


def test_catch_up_needs_no_new_commit_of_the_source() -> None:
    """However closed an admission gate upstream is: what is pinned is committed already."""
    assert isinstance(outcome(TASKS["catch_up"], SITUATIONS["pinned"], seen(9)), Move)
    assert outcome(TASKS["catch_up"], SITUATIONS["sealed"], seen(V)) == Move(Event.PIN, changes=Changes(handoff=V))


def test_a_source_that_lost_the_hand_off_epoch_is_another_one() -> None:
    with pytest.raises(SourceReplaced) as raised:
        outcome(TASKS["catch_up"], SITUATIONS["pinned"], seen(V))
    assert raised.value.data == {"head": V, "applied": V, "handoff": 9}


def test_verification_is_asked_for_at_the_hand_off_epoch() -> None:
    assert TASKS["verify"].step(SITUATIONS["arrived"], seen()) == Certify(V, RowHash.TYPED, ProofKind.FULL)


def test_the_plan_decides_how_much_a_proof_reads() -> None:
    arrived = SITUATIONS["arrived"]
    spec = replace(arrived.plan.spec, proof=ProofKind.INCREMENTAL)
    adding_up = replace(arrived, plan=replace(arrived.plan, spec=spec))
    assert VerifyGoal().step(adding_up, seen()) == Certify(V, RowHash.TYPED, ProofKind.INCREMENTAL)
    assert VerifyGoal(full=True).step(adding_up, seen()) == Certify(V, RowHash.TYPED, ProofKind.FULL)
    assert VerifyGoal(sample=0.1).step(adding_up, seen()) == Certify(V, RowHash.TYPED, ProofKind.INCREMENTAL, 0.1)
    newest = replace(arrived.newest, record=replace(arrived.newest.record, recovered=V))
    recovered = replace(adding_up, newest=newest)
    assert VerifyGoal(sample=0.1).step(recovered, seen()) == Certify(V, RowHash.TYPED, ProofKind.FULL, 0.1)
    VerifyGoal(sample=0.1).check(recovered)
    VerifyGoal(RowHash.SHA256, full=True).check(adding_up)
    VerifyGoal(sample=0.1).check(adding_up)
    for goal, refused in ((VerifyGoal(full=True, sample=0.1), adding_up), (VerifyGoal(sample=0.1), arrived)):
        with pytest.raises(InvalidSpec, match="sample"):
            goal.check(refused)
    with pytest.raises(InvalidSpec, match="row_hash"):
        VerifyGoal(RowHash.SHA256).check(adding_up)


# --- upstream ---


@pytest.mark.parametrize("situation", ["finished", "upstream"])
def test_following_begins_at_the_epoch_after_the_last_applied(situation: str) -> None:
    build = SITUATIONS[situation]
    applied = build.applied
    assert applied is not None
    step = outcome(UpstreamGoal(SIZE, upto=applied + 3), build, seen(applied + 9, after=applied))
    assert isinstance(step, Move) and step.epochs is not None
    assert (step.epochs.start, step.epochs.last) == (applied + 1, applied + 3)


def test_one_pass_over_an_idle_source_ends_well() -> None:
    assert outcome(UpstreamGoal(SIZE, upto=V), SITUATIONS["finished"], seen()) == Done()


def test_a_follower_waits_for_an_epoch_that_does_not_exist_yet() -> None:
    step = outcome(UpstreamGoal(SIZE, until=5_000), SITUATIONS["finished"], seen(now=100))
    assert isinstance(step, Wait) and 100 < step.until <= 5_000


def test_a_follower_ends_at_its_time_though_more_is_there() -> None:
    assert outcome(UpstreamGoal(SIZE, until=5_000), SITUATIONS["finished"], seen(V + 3, now=5_000)) == Done()


def test_an_epoch_without_rows_advances_the_follower() -> None:
    step = outcome(UpstreamGoal(SIZE, upto=V + 1), SITUATIONS["finished"], seen(V + 1, rows=0))
    assert isinstance(step, Move) and step.positions == (Consumed(V + 1),) * 3


# --- cancel and resume ---


def test_a_resumed_build_forgets_bound_hand_off_and_certificate_and_keeps_its_switches() -> None:
    step = outcome(
        ResumeGoal(1), SITUATIONS["cancelled"], seen(control=Control(4, paused=True, cancelled=True, drop=True))
    )
    assert isinstance(step, Move) and step.event is Event.RESUME
    assert step.changes == Changes(
        control=Control(4, paused=True), bound=None, handoff=None, certificate=None, cost=None
    )


def test_a_cancel_that_no_barrier_has_acknowledged_is_lifted_by_a_mark() -> None:
    task = ResumeGoal(4)
    assert not task.done(SITUATIONS["sealed"])
    step = outcome(task, SITUATIONS["sealed"], seen(control=Control(4, cancelled=True)))
    assert step == Move(Event.MARK, changes=Changes(control=Control(4)))
    assert task.done(state(Phase.CONSUME_LOG, control=Control(4)))
    assert not task.done(state(Phase.CONSUME_LOG, control=Control(4, cancelled=True)))


def test_what_each_task_looks_at() -> None:
    assert [name for name, task in TASKS.items() if task.reads_files] == ["snapshot"]
    assert [n for n, t in TASKS.items() if not t.reads_source] == ["finish", "unverified finish", "cancel", "resume"]
    assert all((task.lane, task.lanes) == (0, 1) for task in TASKS.values())
    assert (SnapshotGoal(2, 5, SIZE).lane, SnapshotGoal(2, 5, SIZE).lanes) == (2, 5)


def test_a_source_view_of_somebody_else_changes_no_decision_about_files() -> None:
    """The snapshot reads the pinned files only: where the head is does not matter."""
    task = SnapshotGoal(0, 1, SIZE)
    steps = [outcome(task, SITUATIONS["planned"], seen(V + n)) for n in (0, 1, 100)]
    assert steps[0] == steps[1] == steps[2]
