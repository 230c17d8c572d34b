"""The strategies there are, by name, and what each says of itself before a build is looked at.

A strategy is one object, registered once. The four of the package are; another one is registered by the package that
holds it, under the entry point ``airflow_backfill.strategies`` (a callable without arguments), or by ``register``.
How a strategy works is in ``strategies.strategy``; what stands here is all that specs, plans and states ask.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

AUTO = "auto"
"""In a spec: the planner takes the strategy that it recommends."""
ENTRY_POINTS = "airflow_backfill.strategies"
_OWN = "airflow_backfill.core.strategies.register"


class Traits(Protocol):
    """What a strategy says of itself."""

    @property
    def name(self) -> str: ...

    @property
    def why(self) -> str:
        """When it fits, in one line of the plan's report."""

    @property
    def keyless(self) -> bool:
        """Whether a key may be missing."""

    @property
    def needs_topic(self) -> bool:
        """Whether it builds a topic's history: then the spec has a topic, else none."""

    @property
    def announces(self) -> bool:
        """Whether epochs of the source are announced before their data is there."""

    @property
    def part_unit(self) -> str:
        """What a source consists of, in the plan's report: files, partitions."""

    @property
    def on_spark(self) -> str:
        """The module with what it does on Spark: its ``Preparation`` and its ``Rounds`` (``spark.strategies``)."""


_KNOWN: dict[str, Traits] = {}
_found = False


def register(strategy: Traits) -> None:
    """Make a strategy known under its name. A name that is taken by another one is an error of the program."""
    if _KNOWN.setdefault(strategy.name, strategy) is not strategy:
        raise ValueError(f"there is a strategy {strategy.name!r} already")


def registered(name: str) -> Traits:
    """The strategy of this name; KeyError if there is none."""
    _discover()
    return _KNOWN[name]


def names() -> tuple[str, ...]:
    """Of all strategies, the package's own first."""
    _discover()
    return tuple(_KNOWN)


def lets_keys_be_missing(name: str) -> bool:
    """Whether a spec with this strategy may name no key; an unknown strategy needs one."""
    return name == AUTO or (name in names() and registered(name).keyless)


def _discover() -> None:
    global _found
    if not _found:
        _found = True
        import_module(_OWN)
        for entry in entry_points(group=ENTRY_POINTS):
            entry.load()()
