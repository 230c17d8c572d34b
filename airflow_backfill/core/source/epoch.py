"""One epoch of the source, as rounds are planned by it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.core.errors import (
    BackfillError,
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One committed version of the source, as rounds are planned by it."""

    number: int
    at: int
    rows: int
    """Changed rows, as the commit counts them; an upper bound where it does not."""
    bytes: int
    """What has to be read for its changes."""
    stop: BackfillError | None = None
    weight: int = 0
    """Bytes of the changed rows, as they are in files: what a round of it holds at once."""
    files: int = 0
    """File actions of its commit."""
    cuts: bool = False
    """The changes before it and after it cannot be read in one go: files were rewritten, or the table reshaped."""
    digest: str | None = None
    """Of its commit; None if that is gone."""
    only_adds: bool = True
    """Whether it does nothing to rows but add some."""

    @property
    def quiet(self) -> bool:
        """Whether it changes no row."""
        return self.rows == 0 and self.bytes == 0
