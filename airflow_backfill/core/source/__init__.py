"""The source as an attempt sees it: epochs that are pending, and what in them stops a build."""
