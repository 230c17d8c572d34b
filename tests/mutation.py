"""Deliberate bugs: the core loaded anew from its sources, one of them edited.

An edit is text of a module replaced by other text, so that what runs is exactly the product but for that bug, and one
whose text is no longer found fails loudly.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import airflow_backfill.core

CORE = airflow_backfill.core.__name__
FOLDER = Path(airflow_backfill.core.__file__).parent


class _Edited(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one module from edited source."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, self.name, "exec"), module.__dict__)


@contextmanager
def mutated(module: str, before: str, after: str, *users: str) -> Iterator[None]:
    """The core with the edit in one of its modules (``folder/name``), for whatever is imported meanwhile; what begins
    with the name of one of the ``users`` is loaded anew, too.
    """
    source = (FOLDER / f"{module}.py").read_text()
    if source.count(before) != 1:
        raise LookupError(f"{before!r} occurs {source.count(before)} times in {module}")
    ours = (CORE, *users)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(ours)}
    finder = _Edited(f"{CORE}.{module.replace('/', '.')}", source.replace(before, after))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(ours)]:
            del sys.modules[name]
        sys.modules.update(kept)
