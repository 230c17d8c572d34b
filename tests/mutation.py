"""Deliberate bugs: the package loaded anew from its sources, one of them edited.

An edit is text of a module replaced by other text, so that what runs is exactly the product but for that bug, and one
whose text is no longer found fails loudly.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import airflow_backfill

PACKAGE = airflow_backfill.__name__
CORE = f"{PACKAGE}.core"
FOLDER = Path(airflow_backfill.__file__).parent


@dataclass(frozen=True)
class Edit:
    """Text that occurs once in the package, to be replaced: wherever it is, so that no edit says in which module."""

    name: str
    before: str
    after: str

    def applied(self, text: str) -> str:
        return text.replace(self.before, self.after)


class _Edited(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one module from edited source."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, self.name, "exec"), module.__dict__)


def holding(edit: Edit) -> Path:
    """The file in which the edit's text is. LookupError unless it occurs once in the package."""
    found = [file for file in FOLDER.rglob("*.py") for _ in range(file.read_text().count(edit.before))]
    if len(found) != 1:
        raise LookupError(f"{edit.name}: {edit.before!r} occurs {len(found)} times in the package")
    return found[0]


@contextmanager
def mutated(edit: Edit, *users: str) -> Iterator[None]:
    """The package with the edit, for whatever is imported meanwhile; the core, and what begins with the name of one of
    the ``users``, is loaded anew.
    """
    file = holding(edit)
    ours = (CORE, *users)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(ours)}
    module = ".".join([PACKAGE, *file.relative_to(FOLDER).with_suffix("").parts])
    finder = _Edited(module, edit.applied(file.read_text()))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(ours)]:
            del sys.modules[name]
        sys.modules.update(kept)
