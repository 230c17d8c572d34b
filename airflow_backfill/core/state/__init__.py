"""The state of a build: folded from committed barriers, loaded from the log, asked for by effects."""
