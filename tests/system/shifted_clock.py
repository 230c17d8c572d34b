"""A wall clock that is wrong, for a process and all that it starts: Python and Java alike, set again while they run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HOUR = 3_600_000


class ShiftedClock:
    """``folder`` gets the library that shifts it; a C compiler has to be there."""

    def __init__(self, folder: Path, ahead: int = 0) -> None:
        """``ahead``: milliseconds."""
        folder.mkdir(exist_ok=True)
        self._library, self._shift = folder / "shifted_clock.so", folder / "shift"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", self._library, source, "-ldl"], check=True)
        self.set(ahead)

    @staticmethod
    def possible() -> bool:
        return shutil.which("cc") is not None

    def set(self, ahead: int) -> None:
        fresh = self._shift.with_suffix(".new")
        fresh.write_text(str(ahead))
        fresh.replace(self._shift)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that goes by it."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_SHIFT": str(self._shift)}
