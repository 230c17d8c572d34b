"""The base of the phases after the plan: their goal is a committed fact in the target's log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.errors import BackfillError, Cancelled
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.operators.application import ApplicationOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

MAX_LANES = 256
"""Of a snapshot: each driver reads the commits of all lanes."""


class PhaseOperator(ApplicationOperator):
    """
    Runs one phase of a build until its goal is committed; returns at once if it already is.

    :param build: id of the build, as the plan returns it; by default the target's newest build. (templated)
    """

    template_fields: Sequence[str] = (*ApplicationOperator.template_fields, "build")

    def __init__(self, *, build: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.build = build

    @abstractmethod
    def task(self) -> Goal:
        """The goal of the phase, which knows when it is reached and whether it may begin."""

    @abstractmethod
    def result(self, state: BuildState) -> dict[str, Any]:
        """The result of the task, from committed state: equal on every retry."""

    def arguments(self) -> list[str]:
        build = ["--build", self.build] if self.build is not None else []
        return [*build, *self.settings(), *self.then_arguments()]

    def settings(self) -> list[str]:
        """The arguments of this phase."""
        return []

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        state = self.committed()
        if ran:
            return self.concluded(context, state)
        if self.task().done(state):
            self.report(context)
        else:
            self.check(state)
            self.run_application(context)
            state = self.committed()
        return self.concluded(context, state)

    def reached(self) -> bool:
        with suppress(BackfillError):
            return self.task().done(self.committed())
        return False

    def concluded(self, context: Context, state: BuildState) -> dict[str, Any]:
        """Called when the goal is committed, by this try or an earlier one. Returns the result."""
        return self.result(state)

    def committed(self) -> BuildState:
        """The build's committed state."""
        return self.ledger.reader(self.target).state(self.build)

    def check(self, state: BuildState) -> None:
        """Raise the errors that the application would raise at once, without starting Spark."""
        if cancelled(state, self.ledger.reader(self.target).commands(state.plan.build)):
            raise Cancelled()
        self.task().check(state)


def cancelled(state: BuildState, commands: Any) -> bool:
    """Whether the build is cancelled, or a cancel is ordered."""
    return state.phase is Phase.CANCELLED or obey(state.control, commands).cancelled
