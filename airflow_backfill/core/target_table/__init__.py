"""Rules of the target, and commits of others in its log."""
