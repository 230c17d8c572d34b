"""Where a table or a folder is: an absolute path, or a URL without any secret in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_backfill.core.errors import InvalidSpec

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*)?")
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes with ``container@account`` in the place where others have a user."""


@dataclass(frozen=True, slots=True)
class Location:
    """A location taken apart. Paths are literal, as Hadoop reads them: ``%20`` is three characters."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, url: str) -> Location:
        """Take ``url`` apart; refuse relative paths, ``..``, control characters and credentials."""
        if url.startswith("/"):
            location = cls("file", "", url)
        else:
            match = _URL.fullmatch(url)
            if match is None:
                shown = "the location" if "@" in url or ":" in url else repr(url)
                raise InvalidSpec(f"{shown} is no location; write an absolute path (/data/t) or a URL (s3a://bucket/t)")
            location = cls(match["scheme"].lower(), match["authority"] or "", match["path"] or "")
        location._check(url)
        return location

    @property
    def local(self) -> bool:
        """Whether the location is a path of this machine."""
        return self.scheme == "file"

    @property
    def url(self) -> str:
        """The location in one spelling; a path, if it is local."""
        return self.path if self.local else f"{self.scheme}://{self.authority}{self.path}"

    def _check(self, url: str) -> None:
        plain = re.fullmatch(r"[A-Za-z0-9._@-]*(:[0-9]+)?", self.authority)
        named = "@" in self.authority and self.scheme not in _AZURE
        split = ":" in self.authority and "@" in self.path  # a key with a slash in it
        if named or split or not plain or ("?" in self.path and not self.local):
            # Nothing of it is repeated: what looks like a host may be a part of the key.
            raise InvalidSpec(
                f"a location ({self.scheme}:...) must not contain credentials or a query; use a connection"
            )
        if not url.isprintable() or ".." in self.path.split("/"):
            raise InvalidSpec(
                f"{url!r}: a location must not contain '..' or characters that cannot be seen; write it out"
            )
        if self.local and (self.authority not in ("", "localhost") or not self.path):
            raise InvalidSpec(f"{url!r} is no path of this machine; write it as /data/t or file:///data/t")


def first_line(error: object) -> str:
    """What an error says, for a message: without the query of a signed URL that it may quote."""
    return re.sub(r"\?\S*", "?***", str(error).partition("\n")[0])
