"""The registered strategies, by name, with the traits that specs, plans and states need.

Each strategy is one object. The package registers its four. Another package registers its own by ``register``, or by
the entry point ``airflow_backfill.strategies`` (a callable without arguments). ``strategies.strategy`` says how a
strategy works.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from threading import RLock
from typing import Protocol

AUTO = "auto"
"""In a spec: the planner chooses the strategy that it recommends."""
ENTRY_POINTS = "airflow_backfill.strategies"
_OWN = "airflow_backfill.core.strategies.register"


class Traits(Protocol):
    """Facts about a strategy that do not depend on a build."""

    name: str
    why: str
    """When to use it: one line of the plan's report."""
    keyless: bool
    """Whether the spec may omit the key."""
    needs_topic: bool
    """Whether it builds a topic's history. The spec has a topic exactly then."""
    announces: bool
    """Whether epochs of the source are announced before their data is in the target."""
    adds_up: bool
    """Whether it reads each row of the pinned epoch once, and then each change once, so that the digest of the source
    can be added up while the target is built.
    """
    part_unit: str
    """The units of the source in the plan's report: files, partitions."""
    on_spark: str
    """The module with its ``Preparation`` and ``Rounds`` for Spark (see ``spark.strategies``)."""


_KNOWN: dict[str, Traits] = {}
_DISCOVERY = RLock()
_begun = _found = False


def register(strategy: Traits) -> None:
    """Register a strategy under its name. A name that another strategy has is a programming error."""
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
    """Whether a spec with this strategy may omit the key. An unknown strategy requires one."""
    return name == AUTO or (name in names() and registered(name).keyless)


def _discover() -> None:
    """Once in a process. Other threads wait until all strategies are known; a registration may itself ask for some."""
    global _begun, _found
    if _found:
        return
    with _DISCOVERY:
        if not _begun:
            _begun = True
            import_module(_OWN)
            for entry in entry_points(group=ENTRY_POINTS):
                entry.load()()
            _found = True
