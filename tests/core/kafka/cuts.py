"""Random histories told twice: row by row, and in whatever sets the same rows are cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_backfill.core.kafka.batches import Stop, backfilled_batch, upstream_batch
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.record_by_record import backfilled_row, upstream_row

VERSIONS = EpochRange(0, 1)


@dataclass
class History:
    """Runs of offsets of one side each, True for the landing table, on a split with a target or without one."""

    target: int | None
    runs: list[tuple[bool, list[int]]] = field(default_factory=list)


def history(rng: random.Random) -> History:
    """Both sides rise, each with holes, and neither knows of the other."""
    reach = rng.choice((8, 20, 60))
    found = History(rng.choice((None, rng.randrange(reach), rng.randrange(reach))))
    upstream, kafka = rng.randrange(reach), rng.choice((0, 0, rng.randrange(reach)))
    for _ in range(rng.randrange(1, 8)):
        lands = rng.random() < 0.5
        low = upstream if lands else kafka
        run = [n for n in range(low, low + rng.randrange(1, 13)) if rng.random() < 0.8]
        if run and lands:
            upstream = run[-1] + rng.choice((1, 1, 4))
        elif run:
            kafka = run[-1] + rng.choice((1, 1, 4))
        if run:
            found.runs.append((lands, run))
    return found


def cuts(rng: random.Random, run: list[int]) -> Iterable[list[int]]:
    """Consecutive parts of ``run``, none of them empty."""
    start = 0
    while start < len(run):
        stop = rng.randint(start + 1, len(run))
        yield run[start:stop]
        start = stop


Told = list[tuple[Split, list[tuple[bool, int]]]]


def row_by_row(told: History) -> Told:
    """The split after every run, and the rows of it that were visible."""
    split, found = Split(0, target=told.target), []
    for lands, run in told.runs:
        visible = []
        for offset in run:
            split, seen = upstream_row(split, offset) if lands else backfilled_row(split, offset)
            if seen:
                visible.append((lands, offset))
        found.append((split, visible))
    return found


def in_sets(told: History, rng: random.Random) -> Told:
    """The same of sets, cut anew by every ``rng``."""
    split, found = Split(0, target=told.target), []
    for lands, run in told.runs:
        visible = []
        for part in cuts(rng, run):
            split, offsets = _set(split, lands, part)
            if offsets is not None:
                visible += [(lands, offset) for offset in part if offset in offsets]
        found.append((split, visible))
    return found


def _set(split: Split, lands: bool, part: list[int]) -> tuple[Split, Offsets | None]:
    rows = Batch(part[0], part[-1], len(part))
    if lands:
        return upstream_batch(split, rows, VERSIONS)
    stop = None
    if isinstance(split.state, Backfilling) and split.target is not None:
        below = sum(offset < split.target for offset in part)
        stop = Stop(part[below], below + 1) if below < len(part) else None
    return backfilled_batch(split, rows, stop)


def many(seeds: Iterable[int]) -> list[int]:
    """The seeds whose histories do not come out the same."""
    differing = []
    for seed in seeds:
        rng = random.Random(seed)
        told = history(rng)
        if row_by_row(told) != in_sets(told, rng):
            differing.append(seed)
    return differing
