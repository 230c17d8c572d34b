"""A folder for temporary files in which no other user can read or write."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_backfill.core.errors import NoSpace


def own_folder() -> Path:
    """The folder of this user; a fresh one if another user has made the one of that name. NoSpace if there is none."""
    with _writing():
        folder = Path(tempfile.gettempdir()) / f"airflow-backfill-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
        return Path(tempfile.mkdtemp(prefix="airflow-backfill-"))


def new_file(content: bytes, prefix: str = "", suffix: str = "") -> Path:
    """A new file with this content, for this user only. NoSpace if it cannot be written; then none is left."""
    with _writing():
        handle, name = tempfile.mkstemp(suffix, prefix, own_folder())
        try:
            with open(handle, "wb") as file:
                file.write(content)
        except OSError:
            os.unlink(name)
            raise
        return Path(name)


@contextmanager
def _writing() -> Iterator[None]:
    """If all folders for temporary files are full, Python says that it finds none."""
    try:
        yield
    except OSError as error:
        raise NoSpace(
            f"this worker cannot write temporary files: {error}; make room in their folder, or name another one in its "
            "environment variable TMPDIR"
        ) from error
