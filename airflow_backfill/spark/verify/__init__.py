"""Proves that target and transformed source are equal, and repairs differences."""
