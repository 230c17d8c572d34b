"""The strategy ``source``: first a topic's history, then the table in which its records land."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.state.effect import Asks
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Follow, Held, Move, Observed, Read, Wait
from airflow_backfill.core.strategies.offsets_round import Poll, next_offsets
from airflow_backfill.core.strategies.strategy import NOTHING_TO_SKIP, Progress, idle
from airflow_backfill.core.values.control import Verb
from airflow_backfill.core.values.phase import Phase


class Source:
    """Reads a topic's history once, then the table in which its records land (S001)."""

    name = "source"
    why = "the history comes from Kafka, up to a seam in each partition, and later records from the landing table"
    keyless = True
    adds_up = False
    needs_topic = True
    announces = False
    part_unit = "partitions"
    on_spark = "airflow_backfill.spark.strategies.source"

    def one_lane(self, spec: BackfillSpec) -> str | None:
        if spec.key and spec.topic is not None and spec.topic.order is not None:
            return "a lane does not know what another lane has deleted, so a topic with order is read"
        return None

    def read(
        self, state: BuildState, lane: int, observed: Observed, step: Read, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        size, landed = observed.fit(step.size), bool(observed.source.pending(state.reached))
        if held is not None and (held.throttled or not landed):
            return held.wait
        poll = Poll(size, size if held is None else None)
        return (yield from next_offsets(state, lane, observed, poll, begins=begins)) or idle(observed)

    def follow(
        self, state: BuildState, lane: int, observed: Observed, step: Follow, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        if held is not None:
            return held.wait
        poll = Poll(observed.fit(step.size), upto=step.upto)
        return (yield from next_offsets(state, lane, observed, poll, begins=begins)) or idle(observed)

    def progress(self, state: BuildState) -> Progress:
        splits = splits_of(state.positions).values()
        done = sum(split.read for split in splits)
        return Progress("records", done, done + sum(split.left for split in splits))

    def useless(self, order: Verb, state: BuildState) -> str | None:
        match order:
            case Verb.SKIP if state.phase is not Phase.SNAPSHOT:
                return NOTHING_TO_SKIP
            case Verb.DEAD_LETTER if state.plan.spec.dead_letters is not None:
                return "the plan already names a table of dead letters (topic.undecodable)"
        return None

    def partitions(self, state: BuildState) -> Mapping[int, Split]:
        return splits_of(state.positions)
