"""A topic as the source: its records, its landing table, its memory of keys."""
