"""Golden tables as archives: where they lie, and how they are packed and unpacked.

A plan names its source and its target by absolute location, and its fingerprint stands in every record. So a table is
made and unpacked in one fixed place, and a lock keeps two test runs apart there.
"""

from __future__ import annotations

import fcntl
import gzip
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = Path("/tmp/airflow_backfill_golden")
ARCHIVES = Path(__file__).parent / "archives"
DOCUMENTS = Path(__file__).parent / "documents"


@contextmanager
def locked() -> Iterator[Path]:
    """The place, empty, for one process at a time; empty again afterwards."""
    with open(f"{PLACE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir()
        try:
            yield PLACE
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def pack(folder: Path, archive: Path) -> None:
    """The same files give the same archive, whenever and by whom it is packed."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(archive, "wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            tar.add(path, str(path.relative_to(folder.parent)), recursive=False, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    mode = 0o755 if member.isdir() else 0o644
    return member.replace(mtime=0, uid=0, gid=0, uname="", gname="", mode=mode, deep=False)


def unpack(archive: Path, place: Path) -> None:
    """As if it was written now: Delta removes commits by the time of their files."""
    now = int(time.time())

    def fresh(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        safe = tarfile.data_filter(member, path)
        return safe and safe.replace(mtime=now, deep=False)

    with tarfile.open(archive) as tar:
        tar.extractall(place, filter=fresh)
