"""The user's own code, installed where Spark runs; a spec only names it.

Code never comes from a spec, a connection or a setting: anyone who may write those could run code. There are two ways
to install it. A package on the driver has an entry point in the group (for Python functions also on the executors; a
zip in ``--py-files`` works). Or the user's own entry script calls ``register`` before ``main`` of an application.
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
    """Installed objects of one ``kind`` by name. Its errors have the class ``error``."""

    what: str
    """The word for one of them in errors."""
    group: str
    """The group of entry points. One is loaded when a spec names it."""
    kind: type[Installed]
    error: type[BackfillError]
    _known: dict[str, Installed] = field(default_factory=dict)

    def register(self, name: str, found: Installed) -> None:
        """Let specs name this object in this application; an error if the name has another object."""
        if self._known.setdefault(name, found) != found:
            raise self._error(name, "is registered already with other code; choose another name")

    def find(self, name: str) -> Installed:
        """The object of this name; an error with the known names if there is none."""
        if name in self._known:
            return self._known[name]
        installed = entry_points(group=self.group)
        found = {entry.value: entry for entry in installed if entry.name == name}
        if len(found) > 1:
            several = ", ".join(sorted(found))
            raise self._error(name, f"is ambiguous, installed more than once: {several}; remove all packages but one")
        if not found:
            known = sorted({*self._known, *(entry.name for entry in installed)})
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            there = ", ".join(known) or "none"
            raise self._error(
                name, f"is not installed where Spark runs{hint} (there are: {there}); correct the name or install it"
            )
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
