"""Looks for a seed that catches each deliberate bug whose kept one does not any more: after every change of the
simulation.

``python -m tests.simulation.hunt [SEEDS]``, on all cores; ``caught.json`` beside this file keeps what it finds.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.mutation import holding
from tests.simulation.mutant import caught_by, ends
from tests.simulation.mutants import MUTANTS

KEPT = Path(__file__).with_name("caught.json")
"""By the name of a bug: the seed that catches it."""
CHUNK = 10


def kept_seeds() -> dict[str, int]:
    found: dict[str, int] = json.loads(KEPT.read_text())
    return found


def looked_for(number: int, known: int | None, seeds: int) -> tuple[int | None, str]:
    """The first seed that catches a bug, the known one before all others, and what it says. A seed whose world breaks
    without the bug, too, catches nothing.
    """
    mutant = MUTANTS[number]
    left = [] if known is None else [range(known, known + 1)]
    left += (range(first, min(first + CHUNK, seeds)) for first in range(0, seeds, CHUNK))
    while left:
        some = left.pop(0)
        if (caught := caught_by(mutant, some)) is None:
            continue
        seed = caught[0]
        if (broken := ends(mutant, seed)) is None:
            return caught
        print(f"seed {seed} breaks without the bug, too: {mutant.name}: {broken}", flush=True)
        left.insert(0, range(seed + 1, some.stop))
    return None, f"{seeds} seeds noticed nothing"


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    kept, begun = kept_seeds(), time.monotonic()
    for mutant in MUTANTS:
        holding(mutant)  # an edit whose text is gone fails now, and not after minutes
    with ProcessPoolExecutor(os.cpu_count(), initializer=logging.disable) as pool:
        hunts = [pool.submit(looked_for, n, kept.get(mutant.name), seeds) for n, mutant in enumerate(MUTANTS)]
        for mutant, hunt in zip(MUTANTS, hunts, strict=True):
            seed, said = hunt.result()
            print(f"{time.monotonic() - begun:6.0f} s  seed {seed}: {mutant.name}: {said[:100]}", flush=True)
            if seed is not None:
                kept[mutant.name] = seed
                there = {one.name: kept[one.name] for one in MUTANTS if one.name in kept}
                KEPT.write_text(json.dumps(there, indent=1) + "\n")
    return 0 if len(kept) == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main())
