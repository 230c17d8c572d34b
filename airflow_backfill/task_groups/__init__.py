"""A whole table backfill as one task group."""
