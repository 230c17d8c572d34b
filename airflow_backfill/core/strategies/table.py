"""The common part of the strategies for tables: a key, no topic, and a log after the snapshot."""

from __future__ import annotations

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state.effect import Asks
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Follow, Held, Move, Observed, Wait
from airflow_backfill.core.strategies import log
from airflow_backfill.core.strategies.strategy import NOTHING_TO_SKIP
from airflow_backfill.core.values.control import Verb


class TableStrategy:
    """Everything but the names, ``read`` and ``progress``, which each strategy defines."""

    keyless = False
    adds_up = False
    needs_topic = False
    announces = False
    part_unit = "files"

    def one_lane(self, spec: BackfillSpec) -> str | None:
        return None

    def follow(
        self, state: BuildState, lane: int, observed: Observed, step: Follow, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        yield from ()
        return log.follow(state, observed, step, held)

    def useless(self, order: Verb, state: BuildState) -> str | None:
        match order:
            case Verb.SKIP:
                return NOTHING_TO_SKIP
            case Verb.DEAD_LETTER:
                return "the source is no topic, so the build decodes no records"
        return None

    def partitions(self, state: BuildState) -> None:
        return None
