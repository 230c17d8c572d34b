"""The registry of strategies, by name, and the traits of a strategy that do not depend on a build.

A strategy is one object, registered once. This package registers its four. Another package registers its own under the
entry point ``airflow_backfill.strategies`` (a callable without arguments), or with ``register``. Specs, plans and
states use only these traits; ``strategies.strategy`` has the rest of the interface.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

AUTO = "auto"
"""In a spec: the planner uses the strategy that it recommends."""
ENTRY_POINTS = "airflow_backfill.strategies"
_OWN = "airflow_backfill.core.strategies.register"


class Traits(Protocol):
    """The traits of a strategy that do not depend on a build."""

    @property
    def name(self) -> str: ...

    @property
    def why(self) -> str:
        """When to use it, in one line of the plan's report."""

    @property
    def keyless(self) -> bool:
        """Whether the spec may leave out the key."""

    @property
    def needs_topic(self) -> bool:
        """Whether it builds a topic's history. If so, the spec must have a topic; if not, it must not."""

    @property
    def announces(self) -> bool:
        """Whether it announces epochs of the source before the target has their data."""

    @property
    def part_unit(self) -> str:
        """The name of the source's parts in the plan's report: files or partitions."""

    @property
    def on_spark(self) -> str:
        """The module with its ``Preparation`` and its ``Rounds`` on Spark (``spark.strategies``)."""


_KNOWN: dict[str, Traits] = {}
_found = False


def register(strategy: Traits) -> None:
    """Register a strategy under its name; ValueError if another strategy has that name."""
    if _KNOWN.setdefault(strategy.name, strategy) is not strategy:
        raise ValueError(f"another strategy is registered as {strategy.name!r}; use another name")


def registered(name: str) -> Traits:
    """The strategy of this name; KeyError if there is none."""
    _discover()
    return _KNOWN[name]


def names() -> tuple[str, ...]:
    """The names of all strategies, the package's own first."""
    _discover()
    return tuple(_KNOWN)


def lets_keys_be_missing(name: str) -> bool:
    """Whether a spec with this strategy may leave out the key; an unknown strategy needs one."""
    return name == AUTO or (name in names() and registered(name).keyless)


def _discover() -> None:
    global _found
    if not _found:
        _found = True
        import_module(_OWN)
        for entry in entry_points(group=ENTRY_POINTS):
            entry.load()()
