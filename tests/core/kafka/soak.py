"""Very many histories, row form against set form, or very many worlds.

``python -m tests.core.kafka.soak N [FIRST]`` tells N histories from seed FIRST on, ``... soak worlds N [FIRST]`` lives
through N worlds. A seed that fails is printed.
"""

from __future__ import annotations

import sys
import time

from tests.core.kafka.cuts import many
from tests.core.kafka.world import failing

CHUNK = 1_000


def main() -> int:
    words = sys.argv[1:]
    worlds = words[:1] == ["worlds"]
    count, first = (int(word) for word in (*words[worlds:], "0")[:2])
    begun, failed = time.monotonic(), 0
    for start in range(first, first + count, CHUNK):
        seeds = range(start, min(start + CHUNK, first + count))
        found = failing(seeds) if worlds else [(seed, "the forms differ") for seed in many(seeds)]
        failed += len(found)
        for seed, trouble in found:
            print(f"seed {seed}: {trouble}", flush=True)
    what = "worlds were as they must be" if worlds else "histories agreed"
    print(f"{count - failed} of {count} {what}, seeds {first} on, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
