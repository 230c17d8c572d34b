"""The changes of one key over many epochs, each on its own: for people who ask why a row is as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Touching:
    """An epoch with a file that can hold the key."""

    at: int
    """When it was committed, milliseconds since 1970."""
    operation: str


@dataclass(frozen=True)
class KeyChanges:
    """``frames`` have the source's columns, ``_change_type`` and ``_commit_version``, and all keys of their files."""

    frames: Sequence[DataFrame]
    epochs: Mapping[int, Touching]
    """The epochs that are read."""
    missing: Sequence[int]
    """Epochs whose commits were deleted or are damaged."""
