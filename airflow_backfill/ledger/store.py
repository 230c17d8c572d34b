"""The operations on named files that logs and journals need.

A reader gets a whole file or none. Names are relative to the root, with ``/`` between folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any, BinaryIO, Protocol

from airflow_backfill.core.errors import CredentialsExpired, InvalidSpec

CHUNK_BYTES = 1 << 20
HIDDEN = (".", "_")


_EXPIRED = ("ExpiredToken", "TokenRefreshRequired")
"""S3's codes for session credentials whose time is over."""


class NotFound(KeyError):
    """The store has no file of this name. The message has both."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self.url = url
        self.name = name

    def __str__(self) -> str:
        return f"{self.url} has no file {self.name}"


class Store(Protocol):
    """Files under one root. ``NotFound`` for a missing file, ``SourceUnavailable`` if the store fails."""

    @property
    def url(self) -> str:
        """The root, for messages: contains no secret."""

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        """Names of files in ``folder`` that sort after ``after``, ascending; empty if there is no such folder.

        Hidden files (with a leading ``.`` or ``_``) and subfolders are left out.
        """

    def folders(self, folder: str) -> Sequence[str]:
        """Names of the subfolders of ``folder``, ascending, without hidden ones; empty if there is no such folder."""

    def read(self, name: str, limit: int) -> bytes:
        """The first ``limit`` bytes of the file; the whole file if the result is shorter."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """The file from start to end, in chunks of about a mebibyte."""

    def open(self, name: str) -> BinaryIO:
        """The file for random access; the caller closes it."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the file unless it exists; False if it does. Of concurrent calls, exactly one returns True.

        After a lost answer, a remote store may return False although this call wrote the file.
        """

    def put(self, name: str, data: bytes) -> None:
        """Write the file; replaces an existing one atomically."""

    def delete(self, name: str) -> None:
        """Delete the file, if it exists."""


class RangesFile(RawIOBase):
    """A file for random access of which a store reads ranges: ``read_range(start, stop)``."""

    def __init__(
        self, size: int, read_range: Callable[[int, int], bytes], close: Callable[[], object] = lambda: None
    ) -> None:
        self._size, self._read_range, self._close = size, read_range, close
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        stop = min(self._at + len(buffer), self._size)
        if stop <= self._at:
            return 0
        data = self._read_range(self._at, stop)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = offset + {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()


def checked(name: str) -> str:
    """``name``; InvalidSpec unless it is below the root and not hidden."""
    for part in name.split("/"):
        if not part or part.startswith(".") or not part.isprintable() or "\\" in part:
            raise InvalidSpec(f"{name!r} is not a valid name of a file in a store")
    return name


def expired(where: str, text: str) -> CredentialsExpired | None:
    """CredentialsExpired if a store's error says so; else None."""
    if not any(code in text for code in _EXPIRED):
        return None
    return CredentialsExpired(
        f"{where}: the session credentials have expired, so nothing can be read or written; what is committed stays"
    )
