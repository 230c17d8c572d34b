"""The source, as everything but its format sees it: rows, files, changes, ranges of its key."""
