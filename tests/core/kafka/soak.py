"""Millions of histories, row form against set form, and thousands of worlds, on all cores; SOAK.md beside this file has
the figures.

``python -m tests.core.kafka.soak [HISTORIES] [WORLDS] [FIRST]``. A seed that fails is printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.core.kafka.cuts import many
from tests.core.kafka.world import failing

HISTORIES, WORLDS, FIRST = "2000000", "20000", "0"
CHUNK = 500


def differing(seeds: range) -> list[tuple[int, str]]:
    return [(seed, "the forms differ") for seed in many(seeds)]


def tried(what: str, trouble: Callable[[range], list[tuple[int, str]]], count: int, first: int) -> tuple[str, bool]:
    """A line about so many seeds, and whether none of them found anything."""
    begun, end, failed = time.monotonic(), first + count, list[int]()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(trouble, (range(at, min(at + CHUNK, end)) for at in range(first, end, CHUNK))):
            for seed, why in found:
                failed.append(seed)
                print(f"seed {seed}: {why}", flush=True)
    line = f"| {what} | {count:,} | {first} to {end - 1} | {failed or 'none'} | {time.monotonic() - begun:.0f} |"
    return line, not failed


def main() -> int:
    histories, worlds, first = (int(word) for word in [*sys.argv[1:], *(HISTORIES, WORLDS, FIRST)[len(sys.argv) - 1 :]])
    agreed, same = tried("histories: row by row and in sets, the same", differing, histories, first)
    lived, fine = tried("partitions with readers that crash: as they must be", failing, worlds, first)
    text = "\n".join(
        [
            "# Last soak of a partition's states",
            "",
            f"On {os.cpu_count()} cores.",
            "",
            "| what | how many | seeds | that failed | seconds |",
            "|---|---|---|---|---|",
            agreed,
            lived,
            "",
        ]
    )
    Path(__file__).with_name("SOAK.md").write_text(text)
    print(text)
    return 0 if same and fine else 1


if __name__ == "__main__":
    sys.exit(main())
