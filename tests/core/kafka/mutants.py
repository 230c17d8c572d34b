"""Deliberate bugs of a partition's states: one edit each, exactly the product but for that bug."""

from __future__ import annotations

from tests.mutation import Edit

MUTANTS = (
    Edit(
        "the broker is asked before the landing table is pinned, and nothing notices",
        "if landed is not None and landed >= log.end:",
        "if False:",
    ),
    Edit("no credit", "(split.state.offset, split.credit)", "(split.state.offset,)"),
    Edit("what was dropped is not remembered", "credit=rows.greatest", "credit=split.credit"),
    Edit(
        "the target never falls",
        "replace(after, target=rows.greatest, ",
        "replace(after, target=max(split.target or 0, rows.greatest), ",
    ),
    Edit("all of the splits that exist", "for p in {*partitions, *splits}", "for p in splits"),
    Edit("only the partitions of the plan", "for p in {*partitions, *splits}", "for p in partitions"),
    Edit(
        "stopped at the end of the range, not at a record",
        "split = split.stopped(max(known)) if known else split.finished()",
        "split = split.stopped(split.scanned)",
    ),
    Edit("only a record can reach the target", "split.target is not None and split.scanned >= split.target", "False"),
    Edit(
        "a range without a record is no progress",
        "settled(replace(split, scanned=covered.last))",
        "settled(split if rows is None else replace(split, scanned=covered.last))",
    ),
    Edit("the landing table is never seen to have reached the stop", "split.landed >= split.state.offset", "False"),
    Edit(
        "finished at the target, wherever the landing table is",
        "return after.stopped(stop.offset), Offsets",
        "return after.stopped(stop.offset).finished(), Offsets",
    ),
    Edit(
        "stopped at the landing table's offset, not at the backfill's",
        "after = after.stopped(b)",
        "after, b = after.stopped(rows.least), rows.least",
    ),
    Edit(
        "the offset that was backfilled comes again", "beyond = max(rows.least, b + 1)", "beyond = max(rows.least, b)"
    ),
    Edit("lost records are passed over", "if missing and not expiry.skips:", "if False:"),
    Edit("what is passed over is not counted", "lost=split.lost + missing", "lost=split.lost"),
    Edit(
        "what the landing table kept from before the log is left out",
        "    if expiry.kept is not None:\n        least",
        "    if False:\n        least",
    ),
    Edit(
        "what the landing table has is lost all the same",
        "        if self.kept is None:\n            return len(gap)",
        "        if True:\n            return len(gap)",
    ),
    Edit("a hole in what was kept is a compacted record in any topic", "if not self.compacted:", "if False:"),
    Edit(
        "a compacted topic's ingestion is taken to have come past all of the gap",
        "max(self.kept.least - gap.start, 0) + max(gap.last - passed, 0)",
        "0",
    ),
    Edit("a range begins in what was kept and ends in the log", "    if start < split.floor:", "    if False:"),
    Edit(
        "nothing to read means finished, also later",
        "    gap, split = expired(split, log), replace(split, end=log.end)\n",
        "    gap, split = expired(split, log), replace(split, end=log.end)\n"
        "    if isinstance(split.state, Backfilling) and log.start == log.end:\n"
        "        return split.finished()\n",
    ),
    Edit(
        "every new partition is finished",
        "landed is None and first_landed is not None and first_landed <= log.start",
        "True",
    ),
    Edit(
        "a late ingestion is taken for proof",
        "first_landed is not None and first_landed <= log.start",
        "first_landed is not None",
    ),
    Edit("a later start of history is no floor", "before = None if begin == log.start else begin - 1", "before = None"),
    Edit("reading goes beyond the target", "stop = min(stop, split.target + 1)", "stop = min(stop, split.target + 2)"),
    Edit("reading stops before the target", "stop = min(stop, split.target + 1)", "stop = min(stop, split.target)"),
    Edit("the greatest offset decides", "if rows.least <= b:", "if rows.greatest <= b:"),
    Edit("finished before it is reached", "if rows.greatest < b:", "if rows.greatest < b - 1:"),
    Edit(
        "the rest of the chunk is written",
        "Offsets(rows.least, stop.offset + 1)",
        "Offsets(rows.least, rows.greatest + 1)",
    ),
    Edit("the rest of the chunk is not counted", "split.read + rows.count", "split.read + (stop or rows).count"),
    Edit("credit is the least offset", "credit=rows.greatest", "credit=rows.least"),
)
