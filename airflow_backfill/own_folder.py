"""A folder for temporary files in which no other user can read or write."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def own_folder() -> Path:
    """The folder of this user; a fresh one if another user has made the one of that name."""
    folder = Path(tempfile.gettempdir()) / f"airflow-backfill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix="airflow-backfill-"))
