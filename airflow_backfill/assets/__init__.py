"""The assets of a table backfill, and their events."""
