"""A strategy: the order in which the source's rows reach the target, and every decision that depends on it.

Attempts, goals, the gate and the reports call the strategy; no other code may ask which strategy a build has. Its
splits and positions are a kind of ``core.splits``; its work on Spark is in ``spark.strategies``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.registry import Traits, registered
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state.effect import Asks
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Follow, Held, Move, Observed, Read, Wait
from airflow_backfill.core.values.control import Verb

NOTHING_TO_SKIP = "there is nothing to skip, the build reads no history of a topic"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the snapshot in the strategy's own unit."""

    unit: str
    done: int
    of: int


class Strategy(Traits, Protocol):
    """One way to build a table. Stateless: everything comes as arguments."""

    def one_lane(self, spec: BackfillSpec) -> str | None:
        """Why the build can have only one lane; None if it can have several."""

    def read(
        self, state: BuildState, lane: int, observed: Observed, step: Read, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        """The lane's next round of the snapshot. Something is left to read for this lane.

        If ``held``, the strategy only lets pass what the source would delete during the wait: changes behind positions.
        ``begins``: no round of the attempt has landed yet.
        """

    def follow(
        self, state: BuildState, lane: int, observed: Observed, step: Follow, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        """The next round of the log. Requires a pending epoch."""

    def progress(self, state: BuildState) -> Progress:
        """The progress of the snapshot."""

    def useless(self, order: Verb, state: BuildState) -> str | None:
        """Why a command about what the source gives has no effect; None if it has one, or is another command."""

    def partitions(self, state: BuildState) -> Mapping[int, Split] | None:
        """The splits of the topic's partitions, by number; None for a build without a topic."""


POLL_MS = 5_000
"""Milliseconds until an idle strategy looks again."""


def idle(observed: Observed) -> Wait:
    """The wait of a strategy that has nothing to do now."""
    return Wait(observed.now + POLL_MS, "nothing has changed, and nothing is to be read")


def strategy_of(plan: Plan) -> Strategy:
    """The strategy of a build."""
    return cast(Strategy, plan.strategy)


def check_lanes(spec: BackfillSpec, lanes: int) -> None:
    """Raise InvalidSpec if the build must run in one lane, and is to have several. The strategy is chosen already."""
    why = cast(Strategy, registered(spec.strategy)).one_lane(spec)
    if why is not None and lanes != 1:
        raise InvalidSpec(
            f"lanes is {lanes}, but this build must run in one lane: {why}; set lanes=1, and give Spark more cores to "
            "go faster",
            field="lanes",
        )
