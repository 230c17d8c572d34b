"""Which records say what a build has cost."""

from __future__ import annotations

from airflow_backfill.core.attempts.goals import ResumeGoal
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event
from tests.core.builds import caught_up, finished, planned, writing
from tests.core.model_target import COST
from tests.core.tasks import CANCEL, SNAPSHOT, follow


def test_the_finish_and_every_record_after_it_have_the_cost() -> None:
    model = finished(times=3)
    assert model.state().cost == COST
    model.run(follow(model.source.head))
    told = {record.event: record.cost for record in model.records() if record.cost is not None}
    assert told == dict.fromkeys((Event.FINISH, Event.CLAIM, Event.EPOCHS), COST)
    assert sum(isinstance(effect, fx.ReadCost) for effect in model.effects) == 1, "it is added up once"


def test_before_the_finish_no_record_has_it() -> None:
    model = caught_up(times=3)
    assert model.state().cost is None and {record.cost for record in model.records()} == {None}


def test_a_cancelled_build_has_it_until_it_is_resumed() -> None:
    model = planned()
    writing(model, SNAPSHOT, 2)
    number = model.order(Command(Verb.CANCEL))
    assert model.run(CANCEL).cost == COST
    assert model.run(ResumeGoal(number)).cost is None
