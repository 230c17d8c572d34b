"""Deliberate bugs: one edit of the state machine each, exactly the product but for that.

``caught_by`` lives through random worlds, or tells histories both ways, with the edited source in place of one module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.mutation import Edit, mutated

TESTS = "tests.core.kafka"


@dataclass(frozen=True)
class Mutant(Edit):
    swapped: bool = False
    """Whether its worlds ask the broker before they pin the landing table."""


WORLDS = (
    Mutant("the broker is asked first, and nothing notices",
           "if landed is not None and landed >= log.end:", "if False:", swapped=True),
    Mutant("no credit", "(split.state.offset, split.credit)", "(split.state.offset,)"),
    Mutant("what was dropped is not remembered", "credit=rows.greatest", "credit=split.credit"),
    Mutant("the target never falls",
           "replace(after, target=rows.greatest, ", "replace(after, target=max(split.target or 0, rows.greatest), "),
    Mutant("all of the splits that exist", "for p in {*partitions, *splits}", "for p in splits"),
    Mutant("only the partitions of the plan", "for p in {*partitions, *splits}", "for p in partitions"),
    Mutant("stopped at the end of the range, not at a record",
           "split = split.stopped(max(known)) if known else split.finished()", "split = split.stopped(split.scanned)"),
    Mutant("only a record can reach the target", "split.target is not None and split.scanned >= split.target", "False"),
    Mutant("a range without a record is no progress",
           "settled(replace(split, scanned=covered.last))",
           "settled(split if rows is None else replace(split, scanned=covered.last))"),
    Mutant("the landing table is never seen to have reached the stop", "split.landed >= split.state.offset", "False"),
    Mutant("finished at the target, wherever the landing table is",
           "return after.stopped(stop.offset), Offsets", "return after.stopped(stop.offset).finished(), Offsets"),
    Mutant("stopped at the landing table's offset, not at the backfill's",
           "after = after.stopped(b)", "after, b = after.stopped(rows.least), rows.least"),
    Mutant("the offset that was backfilled comes again",
           "beyond = max(rows.least, b + 1)", "beyond = max(rows.least, b)"),
    Mutant("lost records are passed over", "if missing and not expiry.skips:", "if False:"),
    Mutant("what is passed over is not counted", "lost=split.lost + missing", "lost=split.lost"),
    Mutant("what the landing table kept from before the log is left out",
           "    if expiry.kept is not None:\n        least", "    if False:\n        least"),
    Mutant("what the landing table has is lost all the same",
           "        if self.kept is None:\n            return len(gap)",
           "        if True:\n            return len(gap)"),
    Mutant("a hole in what was kept is a compacted record in any topic", "if not self.compacted:", "if False:"),
    Mutant("a compacted topic's ingestion is taken to have come past all of the gap",
           "max(self.kept.least - gap.start, 0) + max(gap.last - passed, 0)", "0"),
    Mutant("a range begins in what was kept and ends in the log", "    if start < split.floor:", "    if False:"),
    Mutant(
        "nothing to read means finished, also later",
        "    gap, split = expired(split, log), replace(split, end=log.end)\n",
        "    gap, split = expired(split, log), replace(split, end=log.end)\n"
        "    if isinstance(split.state, Backfilling) and log.start == log.end:\n"
        "        return split.finished()\n",
    ),
    Mutant("every new partition is finished",
           "landed is None and first_landed is not None and first_landed <= log.start", "True"),
    Mutant("a late ingestion is taken for proof",
           "first_landed is not None and first_landed <= log.start", "first_landed is not None"),
    Mutant("a later start of history is no floor",
           "before = None if begin == log.start else begin - 1", "before = None"),
    Mutant("reading goes beyond the target",
           "stop = min(stop, split.target + 1)", "stop = min(stop, split.target + 2)"),
    Mutant("reading stops before the target", "stop = min(stop, split.target + 1)", "stop = min(stop, split.target)"),
)  # fmt: skip
"""Caught by worlds."""

CUTS = (
    Mutant("the greatest offset decides", "if rows.least <= b:", "if rows.greatest <= b:"),
    Mutant("finished before it is reached", "if rows.greatest < b:", "if rows.greatest < b - 1:"),
    Mutant("the rest of the chunk is written",
           "Offsets(rows.least, stop.offset + 1)", "Offsets(rows.least, rows.greatest + 1)"),
    Mutant("the rest of the chunk is not counted", "split.read + rows.count", "split.read + (stop or rows).count"),
    Mutant("credit is the least offset", "credit=rows.greatest", "credit=rows.least"),
)  # fmt: skip
"""Caught by the comparison of the row form with the set form."""


def _mutated(mutant: Mutant) -> AbstractContextManager[None]:
    users = (f"{TESTS}.{name}" for name in ("world", "topic", "truth", "record_by_record", "cuts"))
    return mutated(mutant, *users)


def caught_by(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed whose world breaks what must hold, and how; None if the bug goes unnoticed."""
    with _mutated(mutant):
        world = importlib.import_module(f"{TESTS}.world")
        for seed in seeds:
            try:
                world.World(seed, mutant.swapped).run()
            except Exception as error:
                return seed, f"{type(error).__name__}: {error}"
    return None


def told_apart(mutant: Mutant, seeds: Iterable[int]) -> list[int]:
    """The seeds whose histories the two forms tell differently."""
    with _mutated(mutant):
        found: list[int] = importlib.import_module(f"{TESTS}.cuts").many(seeds)
        return found
