"""What users install where Spark runs, and specs only name: code can come from nowhere else.

Never from a spec, a connection or a setting: a path of code there would be code for everybody who may write there. A
package on the driver (and, for Python functions, on the executors; a zip in ``--py-files`` will do) has an entry point
in the group; or an entry script of the user's own registers the object before it calls ``main`` of an application.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from airflow_backfill.core.errors import BackfillError

Installed = TypeVar("Installed")


@dataclass
class Registry(Generic[Installed]):
    """Objects of one ``kind`` by name; every refusal is ``error``."""

    what: str
    """As errors call one of them."""
    group: str
    """Of entry points, which are loaded when they are named."""
    kind: type[Installed]
    error: type[BackfillError]
    _known: dict[str, Installed] = field(default_factory=dict)

    def register(self, name: str, found: Installed) -> None:
        """Let specs name this object in this application; an error if the name is taken by another one."""
        if self._known.setdefault(name, found) != found:
            raise self._error(name, "is registered already, as another one; choose another name")

    def find(self, name: str) -> Installed:
        """The object of this name; an error with those there are."""
        if name in self._known:
            return self._known[name]
        installed = entry_points(group=self.group)
        found = {entry.value: entry for entry in installed if entry.name == name}
        if len(found) > 1:
            several = ", ".join(sorted(found))
            raise self._error(name, f"is installed more than once: {several}; remove all packages but one")
        if not found:
            known = sorted({*self._known, *(entry.name for entry in installed)})
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            there = ", ".join(known) or "none"
            raise self._error(name, f"is not installed where Spark runs{hint} (there are: {there}); install it")
        (entry,) = found.values()
        try:
            loaded: Any = entry.load()
        except Exception as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise self._error(name, f"cannot be loaded from {entry.value}: {why}; correct its package") from error
        if not isinstance(loaded, self.kind):
            wrong = f"{entry.value} is a {type(loaded).__name__}, not a {self.what}"
            raise self._error(name, f"cannot be used: {wrong}; make the entry point name one")
        return loaded

    def _error(self, name: str, why: str) -> BackfillError:
        return self.error(f"{self.what} {name!r} {why}, then clear the task", **{self.what: name})
