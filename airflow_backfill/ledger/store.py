"""The few operations on named files that logs and journals need.

A store shows a file whole or not at all. Names are relative to the root, with ``/`` between folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

from airflow_backfill.core.errors import InvalidSpec

CHUNK_BYTES = 1 << 20
HIDDEN = (".", "_")


class NotFound(KeyError):
    """There is no file of that name: names the store and the file."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self.url = url
        self.name = name

    def __str__(self) -> str:
        return f"{self.url} has no file {self.name}"


class Store(Protocol):
    """Files under one root: ``NotFound`` for a missing one, ``SourceUnavailable`` for any other trouble."""

    @property
    def url(self) -> str:
        """The root, for messages: never holds a secret."""

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        """Bare names in ``folder`` that sort after ``after``, ascending; none if there is no such folder.

        Hidden names (with a leading ``.`` or ``_``) and what lies in folders below are left out.
        """

    def read(self, name: str, limit: int) -> bytes:
        """The first ``limit`` bytes of the file: all of it, if fewer come back."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """The file from start to end, in pieces of about a mebibyte."""

    def open(self, name: str) -> BinaryIO:
        """The file for random access; the caller closes it."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the file unless it exists; False if it does. Of many at once, exactly one gets True.

        After a lost answer a remote store may say False about a file that this call did write.
        """

    def put(self, name: str, data: bytes) -> None:
        """Write the file, replacing what is there in one step."""

    def delete(self, name: str) -> None:
        """Remove the file, if it is there."""


def checked(name: str) -> str:
    """The name, if it stays below the root and is not hidden."""
    for part in name.split("/"):
        if not part or part.startswith(".") or not part.isprintable() or "\\" in part:
            raise InvalidSpec(f"{name!r} cannot be the name of a file in a store")
    return name
