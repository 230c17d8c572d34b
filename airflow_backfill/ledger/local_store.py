"""A store in a folder of this machine, with the standard library only."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from airflow_backfill.core.errors import InvalidSpec, NoSpace, SourceUnavailable, TargetExists, UnsafeCommitStore
from airflow_backfill.ledger.store import CHUNK_BYTES, HIDDEN, NotFound, checked

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class _NotAFolder(Exception):
    """A file exists where a folder is needed."""


class LocalStore:
    """Files in a folder, which is created with the first file.

    A file is written under a hidden name, flushed to disk, then linked or moved to its name: readers never get half a
    file, and a file that a killed process leaves is hidden.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.normpath(root)

    @property
    def url(self) -> str:
        return self._root

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        return self._names(folder, after, os.DirEntry.is_file)

    def folders(self, folder: str) -> Sequence[str]:
        return self._names(folder, "", os.DirEntry.is_dir)

    def _names(self, folder: str, after: str, wanted: Callable[[os.DirEntry[str]], bool]) -> Sequence[str]:
        try:
            with self._trouble(folder), os.scandir(self._path(folder) if folder else self._root) as entries:
                later = [entry for entry in entries if (name := entry.name) > after and not name.startswith(HIDDEN)]
                return sorted(entry.name for entry in later if wanted(entry))
        except NotFound:
            return ()

    def read(self, name: str, limit: int) -> bytes:
        with self._trouble(name), open(self._path(name), "rb") as file:
            # Memory for the whole limit would be taken at once, and costs more than to read a small file.
            return file.read(min(limit, os.fstat(file.fileno()).st_size))

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._trouble(name), open(self._path(name), "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def open(self, name: str) -> BinaryIO:
        with self._trouble(name):
            return open(self._path(name), "rb")

    def create(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        if os.path.lexists(path):
            return False
        with self._trouble(name), _written_beside(path, data) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise UnsafeCommitStore(
                    f"the file system of {self.url} has no hard links, so two writers could both create {name}; "
                    "use another file system"
                ) from error
        return True

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._trouble(name), _written_beside(path, data) as temporary:
            os.replace(temporary, path)

    def delete(self, name: str) -> None:
        try:
            with self._trouble(name):
                os.unlink(self._path(name))
        except NotFound:
            pass

    def _path(self, name: str) -> str:
        return os.path.join(self._root, checked(name))

    @contextmanager
    def _trouble(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(self.url, name) from error
        except _NotAFolder as error:
            raise TargetExists(
                f"{error} is a file, but the build needs a folder there; move the file away, then clear the task",
                file=str(error),
            ) from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidSpec(
                    f"{self.url}: a name in the location is too long for the file system; shorten it"
                ) from None
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"{self.url}/{name}: {error.strerror}; make room", file=name) from error
            raise SourceUnavailable(f"{self.url}/{name}: {error.strerror}", file=name) from error


@contextmanager
def _written_beside(path: str, data: bytes) -> Iterator[str]:
    """A hidden file with the data, flushed to disk, for the block to link or move to ``path``."""
    folder, name = os.path.split(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        raise _NotAFolder(folder) from error
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
