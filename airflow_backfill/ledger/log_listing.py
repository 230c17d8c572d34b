"""The versions in a ``_delta_log`` folder, by the names of its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LOG = "_delta_log"
_NAME = re.compile(
    r"(?P<version>[0-9]{20})\."
    r"(?:(?P<kind>json|crc)"
    r"|checkpoint(?P<single>(?:\.[0-9a-f-]{36})?\.parquet|\.[0-9a-f-]{36}\.json)"
    r"|checkpoint\.[0-9]{10}\.(?P<parts>[0-9]{10})\.parquet)"
)


def commit_name(version: int) -> str:
    """The name of a commit's file in the log's folder."""
    return f"{version:020}.json"


@dataclass(frozen=True, slots=True)
class LogListing:
    """The versions with a commit, a checksum and a complete checkpoint. Other files are ignored."""

    commits: frozenset[int]
    checksums: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    """By version: the names of the files of one checkpoint. Incomplete checkpoints are left out."""
    start: int = 0
    """The version from which on the log was listed."""

    @classmethod
    def of(cls, names: Iterable[str], start: int = 0) -> LogListing:
        """The listing of these names, from ``start`` on."""
        versions: dict[str, set[int]] = {"json": set(), "crc": set()}
        whole: dict[int, tuple[str, ...]] = {}
        parts: dict[tuple[int, int], list[str]] = {}
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            version = int(match["version"])
            if match["kind"]:
                versions[match["kind"]].add(version)
            elif match["parts"]:
                parts.setdefault((version, int(match["parts"])), []).append(name)
            else:
                whole[version] = (name,)
        for (version, count), names_of_parts in parts.items():
            if len(names_of_parts) == count:
                whole.setdefault(version, tuple(names_of_parts))
        return cls(frozenset(versions["json"]), frozenset(versions["crc"]), whole, start)

    @property
    def head(self) -> int | None:
        """The newest version, which may have only a checkpoint left; None for an empty log."""
        return max((*self.commits, *self.checkpoints), default=None)
