"""Deliberate bugs of what a build of a topic decides."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

OF_TOPICS = (
    Mutant(
        "who decided on a layout is forgotten as soon as somebody works in it",
        "    return max(_laid_by(state) or 0, *others, 0)",
        "    return max(*others, 0, 0)",
        topic=True,
        often={"lanes": 0.2, "twin": 0.2},
    ),
    Mutant(
        "undecodable records stop a build that may put them aside",
        "observed.control.dead_letters)",
        "False)",
        topic=True,
    ),
    Mutant(
        "what landed twice is taken twice",
        "self.landed, self.sifted.repeated > 0, self.compacted)",
        "self.landed, False, self.compacted)",
        topic=True,
    ),
    Mutant(
        "a partition that appears needs no history",
        "first_landed is not None and first_landed <= log.start",
        "first_landed is not None",
        topic=True,
    ),
    Mutant(
        "partitions go on from the newest epoch of their lane",
        "self.since = min((position.epoch",
        "self.since = max((position.epoch",
        topic=True,
    ),
    Mutant(
        "sealed while the landing table is behind the history",
        "        return self.epoch if isinstance(self.split.state, Finished) else None",
        "        return self.epoch if self.split.cut is not None or isinstance(self.split.state, Finished) else None",
        topic=True,
    ),
    Mutant(
        "history is read beyond what landed of it",
        "        stop = min(stop, split.target + 1)",
        "        pass",
        topic=True,
    ),
    Mutant(
        "a round goes on where the last fetch was to begin",
        "    start = split.scanned + 1\n",
        "    start = max(split.scanned, 0)\n",
        topic=True,
    ),
    Mutant(
        "what landed is followed before the history is read",
        "            return replace(after, target=rows.greatest, credit=rows.greatest), None",
        "            after = replace(after, target=rows.greatest, credit=rows.greatest)\n"
        "            return after, Offsets(rows.least, rows.greatest + 1)",
        topic=True,
    ),
    Mutant(
        "what the ingestion reads next is taken for landed",
        "self.ingested.get(n, 0) > split.state.offset",
        "self.ingested.get(n, 0) >= split.state.offset",
        topic=True,
    ),
    Mutant(
        "the ingestion's notes are those of now",
        "ReadIngested(self.stand)",
        "ReadIngested(self.observed.source.head)",
        topic=True,
    ),
    Mutant(
        "keys without an order may move to a partition that appears",
        "spec.topic.order is None:",
        "False:",
        topic=True,
    ),
    Mutant(
        "what was deleted since the seam is forgotten",
        "for offset in (self.cut, self.landed))",
        "for offset in (self.cut,))",
        topic=True,
    ),
    Mutant(
        "records that become no rows are forgotten",
        "does=move.does + no_rows",
        "does=move.does",
        topic=True,
    ),
    Mutant(
        "a source that was put back from a backup is followed on by a topic",
        "        if commit.version > view.head or view.commit(commit.version) not in (None, commit):",
        "        if False:",
        topic=True,
        trouble="put back",
    ),
    Mutant(
        "in place of Kafka the landing table is read as of the round",
        "self.newest = _readable((yield from ReadSourceLog(self.since)), self.since)",
        "self.newest = self.stand",
        topic=True,
    ),
    Mutant(
        "what the landing table kept is read from Kafka all the same",
        "return offsets.start < self.splits[partition].floor",
        "return False",
        topic=True,
    ),
    Mutant(
        "the end of a round is not looked at before it is read",
        "if not too_large(ranges, looked.bytes, size):",
        "if True:",
        topic=True,
    ),
)
