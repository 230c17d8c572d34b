"""A source and a target that are made once for several tests: each gets them as they were when they were made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Generic, TypeVar

from tests.spark.history import Source, copied

T = TypeVar("T")


class Kept(Generic[T]):
    """``make`` gets a source of its own and the place of a target, and takes them as far as the tests need it."""

    def __init__(self, made: Source, folder: Path, make: Callable[[Source, Path], T]) -> None:
        # The plan names both places, so a test works where they were made.
        self._place, self._kept = folder / "work", folder / "kept"
        self._source = copied(made, self._place / "source", through=1)
        self._made = make(self._source, self._place / "target")
        shutil.copytree(self._place, self._kept)

    def restored(self) -> T:
        shutil.rmtree(self._place)
        shutil.copytree(self._kept, self._place)
        self._source.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return copy(self._made)
