"""One epoch of the source, with the figures by which rounds are planned."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.core.errors import BackfillError


@dataclass(frozen=True, slots=True)
class Epoch:
    """One committed version of the source."""

    number: int
    at: int
    """When it was committed, milliseconds since 1970."""
    rows: int
    """Changed rows, as the commit counts them; else an upper bound."""
    bytes: int
    """Bytes to read for its changes."""
    stop: BackfillError | None = None
    """The error with which the epoch stops the build."""
    weight: int = 0
    """Bytes of the changed rows in files: what a round holds in memory at once."""
    files: int = 0
    """File actions of its commit."""
    cuts: bool = False
    """Changes before and after it cannot be read together: it rewrites files, or changes the schema."""
    digest: str | None = None
    """Digest of its commit; None if the commit was deleted."""
    only_adds: bool = True
    """Whether it only adds rows."""

    @property
    def quiet(self) -> bool:
        """Whether it changes no row."""
        return self.rows == 0 and self.bytes == 0
