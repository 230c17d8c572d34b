"""Connections of table backfills."""
