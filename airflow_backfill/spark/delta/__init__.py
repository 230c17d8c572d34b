"""A Delta table as the source: files of a version, changes between two, ranges of the key."""
