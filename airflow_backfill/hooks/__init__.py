"""Hooks for connections of table backfills."""
