"""The source as an attempt observes it: pending epochs, and what in them stops a build."""
