"""A build of a chain on models of its tables, with the announcer that runs beside each attempt."""

from __future__ import annotations

from airflow_backfill.core.attempts.announcer import announce
from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.model.announcement import Announcement, announcement
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from tests.core.builds import writing
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.tasks import CATCH_UP, CONSUME, READ

SPEC = BackfillSpec(name="orders", source="/lake/orders", target="/marts/orders", key=("id",), strategy="chain")


class ChainModel(Model):
    """It is planned."""

    def __init__(self) -> None:
        super().__init__(spec=SPEC)
        self.plan()

    def news(self) -> list[Announcement]:
        found = (announcement(commit) for commit in map(self.target.read, range(self.target.head + 1)))
        return [one for one in found if one is not None]

    def kinds(self) -> list[str]:
        return [one.kind.value for one in self.news()]

    def announced(self) -> list[int]:
        return [epoch for one in self.news() if one.epochs for epoch in range(one.epochs.start, one.epochs.stop)]

    def beside(self, me: Attempt) -> Running:
        """The announcer of an attempt."""
        return Running(self, announce(Attempt(me.generation, f"{me.name}/seen")))

    def claimed(self) -> tuple[Running, Running]:
        """An attempt at the snapshot that has its lane, and its announcer, which has its own."""
        me = self.attempt()
        work = writing(self, READ, me=me)
        work.step()
        announcer = self.beside(me)
        announcer.until(fx.CommitRecord)
        announcer.until(fx.SleepUntil)
        return work, announcer

    def together(self, work: Running, announcer: Running, busy: bool = False) -> None:
        """Both go on, step by step, until the work ends; a busy source has a new epoch whenever the work looks."""
        for _ in range(10_000):
            if work.ended:
                break
            if busy and isinstance(work.waits_at, fx.ReadCommands):
                self.write()
            work.step()
            if not announcer.ended:
                announcer.step()
        assert work.ended and work.error is None, work.error

    def run_announced(self, task: Goal, busy: bool = False) -> BuildState:
        """An attempt and its announcer, until the attempt ends."""
        me = self.attempt()
        self.together(self.start(task, me), self.beside(me), busy)
        return self.state()


def claimed() -> tuple[ChainModel, Running, Running]:
    """A new build with a first attempt."""
    model = ChainModel()
    return model, *model.claimed()


def consumed(times: int = 0) -> ChainModel:
    """The snapshot is sealed, and the data stands where the source did; then come so many epochs."""
    model = ChainModel()
    model.run(READ)
    model.start(CONSUME).until(fx.SleepUntil)
    model.write(times=times)
    return model


def caught_up() -> ChainModel:
    """The snapshot is read, and the log up to the hand-off epoch, announcing included."""
    model = ChainModel()
    model.run(READ)
    for task in (CONSUME, CATCH_UP):
        model.run_announced(task)
    return model


def turns(announcer: Running) -> None:
    """The announcer looks again."""
    announcer.step()
    if not announcer.ended:
        announcer.until(fx.SleepUntil)
