"""The source, independent of its format: rows, files, changes, ranges of its key."""
