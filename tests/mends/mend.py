"""What was mended, broken again."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation import Edit


@dataclass(frozen=True)
class Mend(Edit):
    tests: tuple[str, ...] = ()
    """Those that have to notice, each of them."""
