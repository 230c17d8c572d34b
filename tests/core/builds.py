"""Builds in a model of both tables, brought as far as a test wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.values.attempt import Attempt
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.tasks import CONSUME, follow


def planned(files: int = 6, lanes: int = 1, **fields: Any) -> Model:
    model = Model([FileSize(100, 10)] * files, **fields)
    model.plan(lanes=lanes)
    return model


def sealed(**writes: int) -> Model:
    """A build that consumes the log; its source has gone on by what is said to ``Model.write``."""
    return _with(Model.sealed, writes)


def caught_up(**writes: int) -> Model:
    """A build that stands at its hand-off epoch."""
    return _with(Model.caught_up, writes)


def finished(**writes: int) -> Model:
    return _with(Model.finished, writes)


def logged() -> Model:
    """A build that consumes the log and has applied three epochs of it."""
    model = sealed(times=3)
    model.run(CONSUME)
    return model


def upstream(times: int) -> Model:
    """A finished build that has followed so many epochs."""
    model = finished(times=times)
    model.run(follow(model.source.head))
    return model


def _with(build: Callable[[Model], object], writes: dict[str, int]) -> Model:
    model = Model()
    build(model)
    if writes:
        model.write(**writes)
    return model


def writing(model: Model, task: Goal, nth: int = 1, me: Attempt | None = None) -> Running:
    """An attempt that is about to commit for the nth time."""
    attempt = model.start(task, me)
    attempt.until(CommitRecord, nth)
    return attempt
