"""The page with the latest results: a section for each measure, replaced when it runs again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_SECTION = re.compile(r"^## (.+)\n\n((?:(?!## ).*\n?)*)", re.MULTILINE)


class Results:
    """The page at ``path``. ``machine`` describes where it was measured; None if the page says so."""

    def __init__(self, path: Path, machine: str | None = None) -> None:
        self._path, self._machine = path, machine or path.read_text().split("\n")[2]

    def section(self, name: str) -> list[str]:
        """The lines of a section; none if there is none."""
        return self._sections.get(name, "").strip().split("\n")

    def keep(self, name: str, lines: Sequence[str]) -> None:
        sections = {**self._sections, name: "\n".join(lines)}
        parts = [f"## {title}\n\n{text.strip()}\n" for title, text in sections.items()]
        self._path.write_text("\n".join([f"# Last measured\n\n{self._machine}\n", *parts]))

    @property
    def text(self) -> str:
        return self._path.read_text()

    @property
    def _sections(self) -> dict[str, str]:
        return dict(_SECTION.findall(self.text)) if self._path.exists() else {}
