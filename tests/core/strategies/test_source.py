"""Rounds of a topic's partitions, effect by effect."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import ConsumeLogGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import (
    LandingAhead,
    NotAllowedNow,
    PartitionIncomplete,
    PartitionsGrew,
    SourceReplaced,
    SourceUnavailable,
)
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, opened
from airflow_backfill.core.kafka.sizing import FIRST_RECORDS
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.looks import NEVER
from airflow_backfill.core.splits.partitions import AtOffset, splits_of
from airflow_backfill.core.splits.position import later
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.state.step import Move, Read, Wait
from airflow_backfill.core.strategies.offsets_round import LATE, Poll
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model.test_record import FULL
from tests.core.topic_rounds import (
    E0,
    EVERYTHING,
    LOGS,
    LONG,
    PLANNED,
    all_at,
    further,
    plan,
    seen,
    splits,
    taken,
    turn,
)


def test_the_first_round_is_small_because_nobody_knows_how_large_records_are() -> None:
    logs = {0: Log(0, 10**6), 1: Log(0, 10)}
    topic = fx.Topic("id", logs)
    move, asked = turn(BuildState.planned(plan(logs)), seen(), topic=topic, step=Poll(EVERYTHING, RoundSize()))
    assert asked[-1] == fx.FetchRecords({1: Offsets(0, 10), 0: Offsets(0, FIRST_RECORDS - 10)})
    assert isinstance(move, Move) and move.rows == FIRST_RECORDS


def test_history_is_shared_out_and_what_one_leaves_goes_to_the_others() -> None:
    move, asked = turn(BuildState.planned(plan()), seen(), step=Poll(EVERYTHING, RoundSize(rows=100)))
    assert asked == [fx.AskBroker({0: 0, 1: 0}), fx.FetchRecords({1: Offsets(0, 40), 0: Offsets(0, 60)})]
    assert isinstance(move, Move) and move.event is Event.OFFSETS and move.rows == 100
    assert move.work == fx.TakeOffsets({1: Offsets(0, 40), 0: Offsets(0, 60)})
    assert {n: split.state for n, split in splits(move).items()} == {
        0: Backfilling(59),
        1: CatchingUp(39),
        2: Finished(),
    }


def test_a_record_that_becomes_no_row_is_counted() -> None:
    move, _ = turn(BuildState.planned(plan()), seen(), decoded=fx.Decoded(3, 4))
    assert isinstance(move, Move) and (move.does.undecodable_rows, move.does.unwanted_rows) == (3, 4)


def test_it_is_written_down_how_old_what_is_unread_is() -> None:
    move, _ = turn(
        BuildState.planned(plan()),
        seen(),
        topic=fx.Topic("id", LOGS, {0: 77}),
        step=Poll(EVERYTHING, RoundSize(rows=100)),
    )
    assert {n: split.oldest for n, split in splits(move).items()} == {0: 77, 1: None, 2: None}
    assert splits(move)[0].left


@pytest.mark.parametrize(("kept", "expires"), [(None, 0), (1000, 1077), (2**63 - 1, 0)])
def test_it_is_written_down_when_kafka_may_delete_it(kept: int | None, expires: int) -> None:
    """The largest number of milliseconds means for ever."""
    topic, step = fx.Topic("id", LOGS, {0: 77}, kept), Poll(EVERYTHING, RoundSize(rows=100))
    move, _ = turn(BuildState.planned(plan()), seen(), topic=topic, step=step)
    assert {n: split.expires for n, split in splits(move).items()} == {0: expires, 1: 0, 2: 0}


def test_without_its_records_a_topics_build_is_not_recovered() -> None:
    """The target's rows do not say which of them came from Kafka: no proof could hold."""
    recovering = recover(Attempt("recover/1", 2), E0)
    next(recovering)
    recovering.send(fx.Transactions("target", {"build/plan": 1, "build/1/0": 5}))
    with pytest.raises(NotAllowedNow, match="restart"):
        recovering.send(plan())


def test_what_landed_comes_first_and_ends_the_history_earlier() -> None:
    state = further(
        BuildState.planned(plan()), p0=replace(LONG, state=Backfilling(49), scanned=49, read=50, written=50)
    )
    sifted = fx.Landed({0: Batch(45, 60, 16)})
    move, asked = turn(state, seen(16), sifted=sifted)
    assert [type(effect) for effect in asked] == [fx.AskBroker, fx.ReadLanded, fx.FetchRecords]
    assert asked[2].ranges == {1: Offsets(0, 40)}
    assert taken(move).landed == {0: Offsets(50, 61)} and splits(move)[0].state == Finished()


def test_what_landed_counts_for_a_rate_as_what_is_fetched_does() -> None:
    done = all_at(state=Finished(), scanned=9, read=10, written=10, cut=9)
    move, _ = turn(done, seen(5, 7), sifted=fx.Landed({1: Batch(10, 21, 12)}))
    assert isinstance(move, Move) and (move.rows, move.bytes) == (12, 12)
    both, _ = turn(BuildState.planned(plan()), seen(3), sifted=fx.Landed({0: Batch(5, 7, 3)}))
    assert isinstance(both, Move) and both.rows >= 40 and both.bytes >= 10


def test_rows_of_a_landing_table_that_is_there_for_a_moment_are_not_taken() -> None:
    """Between two looks somebody puts a backup of it in its place, with fewer rows, and undoes that."""
    (epoch,) = (looked := seen(3)).source.epochs
    looked = replace(looked, source=replace(looked.source, epochs=Backlog([replace(epoch, digest="planned")])))
    for digest, ends in (("planned", nullcontext()), ("other", pytest.raises(SourceUnavailable, match="backup"))):
        with ends:
            turn(BuildState.planned(plan()), looked, sifted=fx.Landed({}, last=CommitId(epoch.number, digest)))


def test_while_it_is_held_back_only_what_landed_is_looked_at() -> None:
    move, asked = turn(
        BuildState.planned(plan()), seen(3), sifted=fx.Landed({0: Batch(5, 7, 3)}), step=Poll(EVERYTHING)
    )
    assert not any(isinstance(effect, fx.FetchRecords) for effect in asked)
    assert splits(move)[0].target == 7 and splits(move)[0].credit == 7
    assert turn(BuildState.planned(plan()), seen(), step=Poll(EVERYTHING))[0] is None


def test_it_is_said_what_has_to_land() -> None:
    splits = {f"p{n}": opened(n, Log(10 * n, 10 * n + 5), None, None).stopped(10 * n + 4) for n in range(3)}
    at_the_seam = {name: replace(split, scanned=split.target, target=None) for name, split in splits.items()}
    wait, asked = turn(further(BuildState.planned(plan()), **at_the_seam), seen())
    assert asked == [] and isinstance(wait, Wait) and wait.say
    assert wait.why == "offset 4 of partition 0 was read, but has not landed yet (and 2 more partitions)"


def test_what_never_lands_is_not_waited_for_if_the_ingestion_says_so() -> None:
    """Its stream has looked at the partition beyond the seam, and there was nothing for it."""
    planned = plan()
    topic = {"name": "clicks", "checkpoint": "/lake/notes"}
    spec = BackfillSpec.parse({**planned.spec.to_json(), "topic": topic})
    stopped = {f"p{n}": replace(split.stopped(4), scanned=4, target=None) for n, split in PLANNED.items()}
    state = further(BuildState.planned(replace(planned, spec=spec)), **stopped)
    move, asked = turn(state, seen(), ingested={0: 4, 1: 5, 2: 900})
    assert asked == [fx.ReadIngested(E0)]
    assert isinstance(move, Move) and move.work == fx.Nothing()
    found = {n: (split.state, split.landed) for n, split in splits(move).items()}
    assert found == {0: (CatchingUp(4), None), 1: (Finished(), 4), 2: (Finished(), 4)}


GROWN = fx.Topic("id", {**LOGS, 0: Log(0, 103)})


def test_the_landing_table_is_late_after_five_intervals_if_the_topic_has_grown() -> None:
    state, after = BuildState.planned(plan()), LATE * 1_000
    in_time, _ = turn(state, seen(now=after, interval=1_000), topic=GROWN)
    late, asked = turn(state, seen(now=after + 1, interval=1_000), topic=GROWN)
    assert isinstance(in_time, Move) and isinstance(late, Wait) and late.say
    assert "partition 0" in late.why and asked == [
        fx.AskBroker({0: 0, 1: 0}),
        fx.FetchRecords({0: Offsets(100, 103)}, hold=False),
    ]


def test_what_only_the_broker_has_said_is_no_progress() -> None:
    """Another lane may write the position of before once more, which then must not be a step back."""
    state = BuildState.planned(plan())
    ahead = AtOffset(E0 + 3, splits_of(state.positions)[0])
    state = replace(state, positions=(ahead, *state.positions[1:]))
    move, asked = turn(state, seen(0, 0, 0), topic=GROWN, step=Poll(EVERYTHING))
    assert isinstance(move, Move) and move.positions is not None and isinstance(asked[0], fx.AskBroker)
    assert move.positions[0] == ahead and move.positions[1].rank > state.positions[1].rank
    grown = replace(ahead, split=replace(ahead.split, end=GROWN.logs[0].end))
    assert later(ahead, grown) == later(grown, ahead) == grown


def test_a_topic_without_new_records_has_nothing_to_land() -> None:
    """Nothing was sent, or only what never lands: who waited for it would wait for ever."""
    state, looked = BuildState.planned(plan()), seen(now=10_000, interval=1_000)
    idle, _ = turn(state, looked)
    aborted, asked = turn(state, looked, topic=GROWN, fetched={})
    assert isinstance(idle, Move) and isinstance(aborted, Move)
    assert asked[1] == fx.FetchRecords({0: Offsets(100, 103)}, hold=False) and 0 in asked[2].ranges


def test_a_landing_table_is_not_late_because_the_clock_of_the_driver_is_ahead() -> None:
    state, now = BuildState.planned(plan()), 3 * 3_600_000
    looks = NEVER.found(E0 - 1, E0 - 1, now - 2_000)
    move, _ = turn(state, replace(seen(now=now, interval=1_000), looks=looks), topic=GROWN)
    assert isinstance(move, Move), "the newest epoch was not there two seconds ago"
    silent, _ = turn(state, replace(seen(now=now, interval=100), looks=looks), topic=GROWN)
    assert isinstance(silent, Wait) and "for 2 s" in silent.why


def test_a_late_landing_table_that_moves_a_little_is_taken_and_history_still_waits() -> None:
    looked = seen(1, now=10_000, interval=1_000)
    move, asked = turn(BuildState.planned(plan()), looked, sifted=fx.Landed({0: Batch(90, 90, 1)}), topic=GROWN)
    assert [effect.ranges for effect in asked if isinstance(effect, fx.FetchRecords)] == [{0: Offsets(100, 103)}]
    assert splits(move)[0].target == 90 and splits(move)[0].read == 0


def test_what_has_stopped_asks_no_broker() -> None:
    done = all_at(state=CatchingUp(9), scanned=9, read=10, written=10, cut=9)
    move, asked = turn(done, seen(1), sifted=fx.Landed({1: Batch(8, 12, 5)}))
    assert [type(effect) for effect in asked] == [fx.ReadLanded]
    assert taken(move).landed == {1: Offsets(10, 13)}


def test_a_partition_of_another_lane_is_named() -> None:
    state = BuildState.planned(plan(lanes=2))
    move, _ = turn(state, seen(1), sifted=fx.Landed({3: Batch(0, 4, 5)}), lane=0, topic=fx.Topic("id", LOGS))
    assert isinstance(move, Move) and move.positions is not None
    assert len(move.positions) == 4 and move.positions[3].unknown


def test_a_partition_that_appears_is_judged_by_its_lane() -> None:
    logs = {**LOGS, 3: Log(0, 9), 4: Log(0, 9)}
    sifted = fx.Landed({3: Batch(0, 4, 5), 4: Batch(2, 4, 3)})
    move, _ = turn(BuildState.planned(plan()), seen(8), sifted=sifted, topic=fx.Topic("id", logs))
    assert splits(move)[3].state == Finished() and taken(move).landed == {3: Offsets(0, 5)}
    assert splits(move)[4].state == Finished() and taken(move).fetched[4] == Offsets(0, 5)


@pytest.mark.parametrize("order", [None, "timestamp"])
def test_with_a_key_a_topic_may_grow_only_if_something_orders_the_records(order: str | None) -> None:
    planned = plan()
    topic = {"name": "clicks", "order": order}
    spec = BackfillSpec.parse({**planned.spec.to_json(), "key": ["id"], "topic": topic})
    state = BuildState.planned(replace(planned, spec=spec))
    seen_there = {"topic": fx.Topic("id", {**LOGS, 3: Log(0, 9)})}
    if order is None:
        with pytest.raises(PartitionsGrew, match="partition 3"):
            turn(state, seen(), **seen_there)
        with pytest.raises(PartitionsGrew, match="partition 3"):
            turn(state, seen(5), sifted=fx.Landed({3: Batch(0, 4, 5)}))
        return
    move, _ = turn(state, seen(), **seen_there)
    assert splits(move)[3].read == 9


@pytest.mark.parametrize(("before", "outcome"), [({}, "proven"), ({3: Batch(1, 1, 1)}, "refused")])
def test_after_the_seal_kafka_may_show_that_nothing_was_before(before: dict[int, Batch], outcome: str) -> None:
    state = sealed(all_at(state=Finished(), target=None))
    arguments: dict[str, Any] = {
        "sifted": fx.Landed({3: Batch(2, 4, 3)}), "topic": fx.Topic("id", {**LOGS, 3: Log(0, 5)}), "fetched": before,
        "step": Poll(EVERYTHING),
    }  # fmt: skip
    if outcome == "refused":
        with pytest.raises(PartitionIncomplete, match="partition 3"):
            turn(state, seen(3), **arguments)
        return
    move, asked = turn(state, seen(3), **arguments)
    assert asked[-1] == fx.FetchRecords({3: Offsets(0, 2)}, hold=False)
    assert isinstance(move, Move) and move.event is Event.EPOCHS and splits(move)[3].state == Finished()


def test_a_partition_that_only_the_landing_table_knows_is_not_followed() -> None:
    for state in (BuildState.planned(plan()), sealed(all_at(state=Finished(), target=None))):
        with pytest.raises(LandingAhead, match="partition 3: the landing table has offset 5"):
            turn(state, seen(3), sifted=fx.Landed({3: Batch(5, 7, 3)}))


def test_another_topic_of_the_same_name_is_refused() -> None:
    with pytest.raises(SourceReplaced, match="created again"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("another", LOGS))
    with pytest.raises(SourceReplaced, match="created again"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("id", {0: LOGS[0]}))


def sealed(state: BuildState) -> BuildState:
    """The state of a build that consumes the log."""
    return replace(state, newest=Barrier(1, 0, replace(FULL, phase=Phase.CONSUME_LOG), 0))


def test_the_history_lasts_until_somebody_has_judged_every_partition_that_was_named() -> None:
    state, task = all_at(state=Finished(), target=None), ConsumeLogGoal(RoundSize(), MaxLag(epochs=0), 3)
    named = replace(state, positions=state.plan.splits.widened(state.positions, len(state.positions) + 1, E0))
    assert isinstance(task.step(state, seen()), Move) and isinstance(task.step(named, seen()), Read)
