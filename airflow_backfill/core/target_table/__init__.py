"""Rules of the target, and commits of other writers in its log."""
