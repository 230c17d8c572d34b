"""The state of a build: loaded from the log and replayed from its barriers. Effects ask for it."""
