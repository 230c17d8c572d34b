"""Deliberate bugs in adding up the digests of a source."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

OF_PROOFS = (
    Mutant(
        "a piece of the source that overlaps another one counts, too",
        " and all(free[span.start : span.stop]) for span in spans):",
        " for span in spans):",
        adds_up=True,
    ),
    Mutant(
        "some buckets of an epoch count for all of them",
        "for (_, of), buckets in parted.items() if len(buckets) == of]",
        "for (_, of), buckets in parted.items()]",
        adds_up=True,
    ),
    Mutant(
        "pieces are joined over a gap",
        "            if block and block[-1].runs[-1][1] != runs[0][0]:\n",
        "            if block and block[-1].runs[-1][1] > runs[0][0]:\n",
        adds_up=True,
    ),
    Mutant(
        "what was added up before a recovery counts after it",
        "        kind = self._kind(state) if state.recovered is None else ProofKind.FULL\n",
        "        kind = self._kind(state)\n",
        trouble="put back",
        often={"other history": 1.0},
        adds_up=True,
    ),
)
