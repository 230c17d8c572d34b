"""Many thousands of simulated builds on all cores; SOAK.md beside this file has the figures.

``python -m tests.simulation.soak [SEEDS] [FIRST]``. A seed that fails is printed, and belongs into ``PAST_FAILURES``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.world import World

CHUNK = 50
TROUBLES = {1: "put back", 3: "target rule"}
"""By the last digit of a seed: what befalls no world that is not made for it."""


def live_through(seed: int) -> tuple[int, str, Counter[str], str]:
    """One build: its seed, how it ended, what befell it, and what was wrong, if anything."""
    world = World(seed, topic=seed % 4 == 0, through=seed % 3 == 0, trouble=TROUBLES.get(seed % 10))
    try:
        world.run()
    except Exception as error:
        return seed, "FAILED", world.happened, f"{type(error).__name__}: {error}"
    return seed, world.outcome, world.happened, ""


def main() -> int:
    seeds, first = (int(word) for word in [*sys.argv[1:], *("20000", "100000")[len(sys.argv) - 1 :]])
    begun, outcomes, faults, failed = time.monotonic(), Counter[str](), Counter[str](), list[int]()
    with ProcessPoolExecutor(os.cpu_count(), initializer=logging.disable) as pool:  # what is left to other tasks
        for seed, outcome, happened, trouble in pool.map(live_through, range(first, first + seeds), chunksize=CHUNK):
            outcomes[outcome] += 1
            faults += happened
            if trouble:
                failed.append(seed)
                print(f"seed {seed}: {trouble}", flush=True)
    text = "\n".join(
        [
            "# Last soak of the simulation",
            "",
            f"Seeds {first} to {first + seeds - 1}, {time.monotonic() - begun:.0f} s on {os.cpu_count()} cores. The "
            "invariants were checked after every step. Every fourth build is a topic's; in every third one, the "
            "application of the snapshot goes on through the gate.",
            "",
            f"Ended as they must: {seeds - len(failed)} of {seeds}. Failed seeds: {failed or 'none'}.",
            "",
            "| end | builds |",
            "|---|---|",
            *(f"| {outcome} | {count} |" for outcome, count in outcomes.most_common()),
            "",
            "| fault | how often |",
            "|---|---|",
            *(f"| {fault} | {count} |" for fault, count in faults.most_common() if count),
            "",
        ]
    )
    Path(__file__).with_name("SOAK.md").write_text(text)
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
