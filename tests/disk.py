"""A disk of a test's own, which can be full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE = 64 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", folder], check=False).returncode:
        pytest.skip("this user may not mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def leave(disk: Path, room: int) -> None:
    """Fill the disk, but for so many bytes."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    free = os.statvfs(disk)
    if room < SIZE:
        filler.write_bytes(bytes(max(free.f_bavail * free.f_frsize - room, 0)))
