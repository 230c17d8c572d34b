"""A table backfill beside what one would do instead, in one session, interleaved, as ratios."""
