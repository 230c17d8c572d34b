"""Checks before a build begins."""
