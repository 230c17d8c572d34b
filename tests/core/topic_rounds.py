"""A round of a topic's partitions, effect by effect, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from airflow_backfill.core.kafka.offsets import Batch
from airflow_backfill.core.kafka.opening import Log, opened
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.model.plan import Plan, SourceFacts
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset, Partitions
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move, Observed, Wait
from airflow_backfill.core.strategies.offsets_round import Poll, next_offsets
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.round_size import RoundSize

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


PLANNED = {n: opened(n, log, None, None) for n, log in LOGS.items()}
LONG = PLANNED[0]


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
