"""Rounds of a topic's partitions, effect by effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import ConsumeLogGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import (
    KafkaLost,
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
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.model.plan import Plan, SourceFacts
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.looks import NEVER
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset, Partitions, splits_of
from airflow_backfill.core.splits.position import later
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.state.step import Move, Observed, Read, Wait
from airflow_backfill.core.strategies.offsets_round import LATE, Poll, next_offsets
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Control, Verb, obey
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model.test_record import FULL

E0 = 7
LOGS = {0: Log(0, 100), 1: Log(0, 40), 2: Log(0, 0)}
EVERYTHING = RoundSize(rows=1_000)


def plan(logs: Mapping[int, Log] = LOGS, lanes: int = 1, spec: Mapping[str, Any] = MappingProxyType({})) -> Plan:
    splits = tuple(opened(n, log, None, None) for n, log in logs.items())
    topic = {"name": "clicks", **spec}
    asked = BackfillSpec.parse({"name": "t", "source": "/l", "target": "/t", "strategy": "source", "topic": topic})
    facts = SourceFacts("landing", E0, "{}", ())
    return Plan("build", asked, "target", "{}", 0, facts, Partitions("id", splits, "rules"), lanes, {})


def seen(*rows: int, now: int = 1_000, at: int = 0, interval: int | None = None) -> Observed:
    """As many epochs after the pinned one as there are numbers of rows."""
    epochs = [Epoch(E0 + 1 + n, at, count, count) for n, count in enumerate(rows)]
    view = SourceView("landing", E0 + len(rows), E0, Backlog(epochs), None, at, interval)
    return Observed(now, view, Control())


def turn(
    state: BuildState,
    looked: Observed,
    *,
    topic: fx.Topic | None = None,
    sifted: fx.Landed | None = None,
    fetched: Mapping[int, Batch] | None = None,
    step: Poll | None = None,
    lane: int = 0,
    begins: bool = False,
    lost: Exception | None = None,
    ingested: Mapping[int, int] | None = None,
    decoded: fx.Decoded | None = None,
    landed: Mapping[int, Batch] | None = None,
) -> tuple[Move | Wait | None, list[Any]]:
    """What a round comes to, and what it asked for until it was decided. Without ``fetched`` every offset holds a
    record, without ``decoded`` each becomes a row. ``lost``: why no record can be fetched.
    """
    generator = next_offsets(state, lane, looked, step or Poll(EVERYTHING, EVERYTHING), begins=begins)
    asked: list[Any] = []
    answer: Any = None
    while True:
        fails = lost is not None and bool(asked) and isinstance(asked[-1], fx.FetchRecords) and asked[-1].hold
        try:
            effect = generator.throw(lost) if lost is not None and fails else generator.send(answer)
        except StopIteration as stop:
            return stop.value, asked
        if isinstance(effect, fx.DecodeRecords):
            answer = decoded or fx.Decoded(0, 0)
            continue
        asked.append(effect)
        match effect:
            case fx.ReadSourceLog():
                answer = looked.source
            case fx.AskBroker():
                answer = topic or fx.Topic("id", LOGS)
            case fx.ReadLanded():
                answer = sifted or fx.Landed({})
            case fx.ReadIngested():
                answer = ingested or {}
            case fx.FetchRecords({}, kept=fx.Kept()) if not effect.hold and landed is not None:
                answer = fx.Fetched(landed, 10)
            case fx.FetchRecords():
                ranges = {**effect.ranges, **(effect.kept.ranges if effect.kept is not None else {})}
                whole = {n: Batch(some.start, some.last, len(some)) for n, some in ranges.items()}
                answer = fx.Fetched(whole if fetched is None else fetched, 10)


def splits(move: Move | Wait | None) -> dict[int, Split]:
    assert isinstance(move, Move) and move.positions is not None
    return {p.split.partition: p.split for p in move.positions if isinstance(p, AtOffset)}


def all_at(**changes: Any) -> BuildState:
    """A build of which every partition stands alike."""
    return further(BuildState.planned(plan()), **{f"p{n}": replace(split, **changes) for n, split in PLANNED.items()})


def taken(move: Move | Wait | None) -> fx.TakeOffsets:
    assert isinstance(move, Move) and isinstance(move.work, fx.TakeOffsets)
    return move.work


def further(state: BuildState, **changes: Split) -> BuildState:
    positions = [AtOffset(E0, changes.get(f"p{n}", p.split)) for n, p in enumerate(state.positions)]
    return replace(state, positions=tuple(positions))


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


def test_another_topic_of_the_same_name_is_refused() -> None:
    with pytest.raises(SourceReplaced, match="created again"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("another", LOGS))
    with pytest.raises(SourceReplaced, match="created again"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("id", {0: LOGS[0]}))


def test_records_that_retention_took_are_missed() -> None:
    with pytest.raises(KafkaLost, match="needs offset 0, but Kafka's log starts at 3"):
        turn(BuildState.planned(plan()), seen(), topic=fx.Topic("id", {**LOGS, 0: Log(3, 100)}), landed={})


def test_records_that_retention_took_are_read_where_they_landed() -> None:
    """In a range of their own, at the newest epoch of the landing table that there is."""
    topic = fx.Topic("id", {**LOGS, 0: Log(3, 100)})
    move, asked = turn(BuildState.planned(plan()), seen(0, 0), topic=topic)
    assert asked[2] == fx.FetchRecords({}, hold=False, kept=fx.Kept({0: Offsets(0, 3)}, E0 + 2))
    assert asked[3] == fx.FetchRecords({1: Offsets(0, 40)}, kept=fx.Kept({0: Offsets(0, 3)}, E0 + 2))
    assert (splits(move)[0].floor, splits(move)[0].scanned, splits(move)[0].lost) == (3, 2, 0)


SHORT = fx.Topic("id", {**LOGS, 0: Log(30, 100)})
SOME = {0: Batch(10, 19, 10)}


def test_what_retention_takes_faster_than_it_is_read_is_not_refused_for_good() -> None:
    """If the rest may be skipped, the next round reads on; else the loss is named, with the command that passes it."""
    lost = KafkaLost("deleted since the broker was asked")
    with pytest.raises(SourceUnavailable) as late:
        turn(BuildState.planned(plan(spec={"expired": "skip"})), seen(), lost=lost)
    assert late.value.retry


def test_what_is_passed_over_is_counted_if_that_is_wanted() -> None:
    move, _ = turn(BuildState.planned(plan(spec={"expired": "skip"})), seen(), topic=SHORT, landed=SOME)
    assert (splits(move)[0].floor, splits(move)[0].lost) == (30, 20)
    with pytest.raises(KafkaLost) as lost:
        turn(BuildState.planned(plan()), seen(), topic=SHORT, landed=SOME)
    assert lost.value.data["missing"] == 20 and "table-backfill skip" in lost.value.message


def test_what_is_lost_while_a_history_is_read_is_passed_over_once_that_is_ordered() -> None:
    ordered = replace(seen(), control=obey(Control(), [(1, Command(Verb.SKIP))]))
    move, _ = turn(BuildState.planned(plan()), ordered, topic=SHORT, landed=SOME)
    assert (splits(move)[0].floor, splits(move)[0].lost) == (30, 20)


PLANNED = {n: opened(n, log, None, None) for n, log in LOGS.items()}
LONG = PLANNED[0]


def sealed(state: BuildState) -> BuildState:
    """The state of a build that consumes the log."""
    return replace(state, newest=Barrier(1, 0, replace(FULL, phase=Phase.CONSUME_LOG), 0))


def test_the_history_lasts_until_somebody_has_judged_every_partition_that_was_named() -> None:
    state, task = all_at(state=Finished(), target=None), ConsumeLogGoal(RoundSize(), MaxLag(epochs=0), 3)
    named = replace(state, positions=state.plan.splits.widened(state.positions, len(state.positions) + 1, E0))
    assert isinstance(task.step(state, seen()), Move) and isinstance(task.step(named, seen()), Read)


@pytest.mark.parametrize(
    ("key", "compacted", "landed", "expected"),
    [
        (("id",), True, 59, Offsets(0, 40)),
        (("id",), True, 20, Offsets(0, 21)),
        (("id",), True, None, None),
        (("id",), False, 59, Offsets(0, 40)),
        ((), True, 59, None),
    ],
)
def test_a_tombstone_that_is_compacted_away_is_looked_for_where_it_landed(
    key: tuple[str, ...], compacted: bool, landed: int | None, expected: Offsets | None
) -> None:
    logs = {0: Log(0, 40 if landed is None else max(landed + 1, 40))}
    some = plan(logs)
    found = Partitions("id", tuple(opened(0, log, landed, None) for log in logs.values()), "rules", compacted)
    state = BuildState.planned(replace(some, splits=found, spec=replace(some.spec, key=key)))
    step, topic = Poll(EVERYTHING, RoundSize(rows=40)), fx.Topic("id", logs)
    for fetched in ({0: Batch(3, 38, 9)}, {}):
        move, _ = turn(state, seen(), topic=topic, fetched=fetched, step=step)
        assert isinstance(move, Move)
        assert getattr(move.work, "compacted", None) == (fx.Kept({0: expected}, E0) if expected else None)
    move, _ = turn(state, seen(), topic=topic, step=step)
    assert isinstance(move, Move) and isinstance(move.work, fx.TakeOffsets) and move.work.compacted is None
