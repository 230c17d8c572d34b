"""A build that is made once for several tests: each gets its tables as they were when it was made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import copy
from pathlib import Path

from tests.spark.build import Build
from tests.spark.history import Source, copied


class KeptBuild:
    """``make`` gets a source of its own and the place of a target, and takes the build as far as the tests need it."""

    def __init__(self, made: Source, folder: Path, make: Callable[[Source, Path], Build]) -> None:
        # The plan names both places, so a test works where the build was made.
        self._place, self._kept = folder / "build", folder / "kept"
        self._build = make(copied(made, self._place / "source", through=1), self._place / "target")
        shutil.copytree(self._place, self._kept)

    def restored(self) -> Build:
        shutil.rmtree(self._place)
        shutil.copytree(self._kept, self._place)
        self._build.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return copy(self._build)
