"""The location of a table or folder: an absolute path, or a URL without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_backfill.core.errors import InvalidSpec

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*)?")
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes with ``container@account`` where other URLs have a user."""


@dataclass(frozen=True, slots=True)
class Location:
    """The parts of a location. Paths are literal, as for Hadoop: ``%20`` is three characters."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, url: object) -> Location:
        """Split ``url``; InvalidSpec for relative paths, ``..``, invisible characters and credentials, and for what is
        no text: a template may give any object.
        """
        if str(url).strip() in ("", "None"):
            raise InvalidSpec(
                f"a location is empty ({url!r}): the template that names it found no value. If it is the result of a "
                "plan task, that task has none in this run: clear the plan task, then this task. If the build exists, "
                "the plan task starts no Spark and only returns its result again"
            )
        if not isinstance(url, str):
            raise InvalidSpec(
                f"a location must be a text, and this one is a {type(url).__name__}: correct the template that names it"
            )
        if url.startswith("/"):
            location = cls("file", "", url)
        else:
            match = _URL.fullmatch(url)
            if match is None:
                shown = "the location" if "@" in url or ":" in url else repr(url)
                raise InvalidSpec(
                    f"{shown} is not a location; use an absolute path (/data/t) or a URL (s3a://bucket/t)"
                )
            location = cls(match["scheme"].lower(), match["authority"] or "", match["path"] or "")
        location._check(url)
        return location

    @property
    def local(self) -> bool:
        """Whether the location is a path on this machine."""
        return self.scheme == "file"

    @property
    def url(self) -> str:
        """The location in its normal form; a path if it is local."""
        return self.path if self.local else f"{self.scheme}://{self.authority}{self.path}"

    def _check(self, url: str) -> None:
        plain = re.fullmatch(r"[A-Za-z0-9._@-]*(:[0-9]+)?", self.authority)
        named = "@" in self.authority and self.scheme not in _AZURE
        split = ":" in self.authority and "@" in self.path  # a key with a slash in it
        if named or split or not plain or ("?" in self.path and not self.local):
            # The message shows no part of it: what looks like a host may be part of a key.
            raise InvalidSpec(
                f"a location ({self.scheme}:...) must not contain credentials or a query; put them into a connection"
            )
        if not url.isprintable() or url != url.strip() or ".." in self.path.split("/"):
            raise InvalidSpec(
                f"{url!r}: a location must not contain '..' or invisible characters, or end with a space; remove them"
            )
        if self.local and (self.authority not in ("", "localhost") or not self.path):
            raise InvalidSpec(f"{url!r} is not a path on this machine; write it as /data/t or file:///data/t")


def first_line(error: object) -> str:
    """The first line of an error, without the query of a signed URL."""
    return re.sub(r"\?\S*", "?***", str(error).partition("\n")[0])
