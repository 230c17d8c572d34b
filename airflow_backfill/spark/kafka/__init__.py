"""A topic as the source: records, landing table, memory of keys."""
