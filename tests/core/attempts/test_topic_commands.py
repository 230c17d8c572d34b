"""Commands to a build of a topic: nothing is parked, what may be read follows from what is in force and committed."""

from __future__ import annotations

import pytest

from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.kafka.state import Backfilling, Finished
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model_target import NO_LAG, PATIENCE
from tests.core.running import Running
from tests.core.topic_model import TopicModel

SIZE = RoundSize(10**9, 10)
READ = SnapshotGoal(0, 1, SIZE)
CONSUME = ConsumeLogGoal(SIZE, NO_LAG, PATIENCE)


def planned(*ends: int) -> TopicModel:
    model = TopicModel(*ends)
    model.plan()
    return model


def rounds(running: Running, count: int) -> None:
    """The attempt has read so many rounds of the topic."""
    for _ in range(count):
        running.until(fx.FetchRecords)
        running.until(fx.CommitRecord)
        running.step()


def waits(running: Running, times: int = 3) -> None:
    """The attempt has waited so often."""
    for _ in range(times):
        running.until(fx.SleepUntil)
        running.step()


def handed_over(model: TopicModel) -> None:
    """Whatever is left is read and lands, and each record is in the target once."""
    model.run(READ)
    for n, end in enumerate(model.ends):
        if model.landed_before(n) < end:
            model.land(n, model.landed_before(n), end)
    model.run(CONSUME)
    assert model.written() == model.everything()


def test_paused_before_the_first_round_it_is_planned_and_nothing_is_read() -> None:
    model = planned(25, 0)
    model.order(Command(Verb.PAUSE))
    running = model.start(READ)
    waits(running)
    splits = splits_of(model.state().positions)
    full, empty = splits[0], splits[1]
    assert (full.state, full.target, empty.state) == (Backfilling(None), 24, Finished())
    assert model.fetches() == []
    model.order(Command(Verb.RESUME))
    running.finish()
    handed_over(model)


@pytest.mark.parametrize("stop", [Command(Verb.PAUSE), Command(Verb.THROTTLE, 0)], ids=["pause", "rate 0"])
@pytest.mark.parametrize("retried", [False, True])
def test_what_stops_the_reading_stops_nothing_else_and_is_in_force_after_a_retry(stop: Command, retried: bool) -> None:
    model = planned(25, 25)
    running = model.start(READ)
    rounds(running, 2)
    read = model.fetches()
    model.order(stop)
    model.produce(0, 5)
    # What was read of it has landed, and what comes next: that is taken while nothing is fetched.
    model.land(0, 0, 15)
    waits(running)
    running = model.start(READ) if retried else running
    waits(running)
    assert model.fetches() == read and splits_of(model.state().positions)[0].landed == 14
    model.order(Command(Verb.RESUME) if stop.verb is Verb.PAUSE else Command(Verb.THROTTLE))
    running.finish()
    handed_over(model)


def test_nothing_brings_a_paused_reading_back_but_its_own_command() -> None:
    """A new rate, a partition that appears, and what lands do not; then every offset is read once."""
    model = planned(60)
    running = model.start(READ)
    rounds(running, 1)
    read = model.fetches()
    for n, command in enumerate(
        (Command(Verb.PAUSE), Command(Verb.PAUSE), Command(Verb.THROTTLE, 5), Command(Verb.THROTTLE, 10**6))
    ):
        model.order(command)
        model.produce(1, 7)
        model.land(0, 30 + 5 * n, 35 + 5 * n)
        waits(running)
    assert model.fetches() == read
    for _ in range(2):
        model.order(Command(Verb.RESUME))
    running.finish()
    handed_over(model)


def test_what_is_fetched_begins_where_the_last_commit_ended() -> None:
    """Also if a round was read and did not land, and the process that read it is gone."""
    model = planned(40)
    rounds(model.start(READ), 1)
    lost = model.start(READ)
    lost.until(fx.FetchRecords)
    lost.until(fx.CommitRecord)
    model.order(Command(Verb.PAUSE))
    model.order(Command(Verb.RESUME))
    model.run(READ)
    assert [some[0].start for some in model.fetches()] == [0, 10, 10, 20, 30]
    handed_over(model)


def test_what_landed_is_chosen_before_the_broker_is_asked() -> None:
    """In every round: what lands between the two, or later, is below the ends that the broker named, or comes later."""
    model = planned(10_000)
    running = model.start(SnapshotGoal(0, 1, RoundSize(10**9, 1_000)))
    rounds(running, 1)
    for _ in range(30):
        model.produce(0, 3)
        model.land(0, max(model.landed_before(0), 9_900), model.ends[0])
        running.step()
    running.finish()
    handed_over(model)


def test_what_there_is_to_read_follows_from_the_partitions_of_now() -> None:
    """One that appears when all others have stopped is read, and takes back that all are read; no other is."""
    model = planned(10)
    running = model.start(READ)
    running.finish()
    assert model.state().read
    read = len(model.fetches())
    model.produce(1, 15)
    model.land(1, 5, 15)
    running = model.start(CONSUME)
    running.until(fx.SleepUntil)
    assert {n for some in model.fetches()[read:] for n in some} == {1}
    model.land(0, 0, 10)
    running.finish()
    assert model.written() == model.everything()


def test_a_new_rate_holds_from_the_next_round_on_and_the_same_one_again_changes_nothing() -> None:
    model = planned(100_000)
    running = model.start(SnapshotGoal(0, 1, RoundSize(10**9, 10**6)))

    def minute(rate: int) -> int:
        """How many records it reads in a minute in which the rate is given fifty times."""
        before, began, given = sum(model.written().values()), model.now, 0
        while model.now < began + 60_000:
            assert not running.ended
            if given < 50 and model.now >= began + 1_000 * given:
                model.order(Command(Verb.THROTTLE, rate))
                given += 1
            running.step()
        return sum(model.written().values()) - before

    for rate in (1_000, 100, 500):
        # What a round takes at most is known: five seconds of the rate.
        assert 55 * rate <= minute(rate) <= 65 * rate + 5_000 * (rate == 100)
