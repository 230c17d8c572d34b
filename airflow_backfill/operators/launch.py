"""How an operator other than spark-submit starts a Spark application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow.sdk import BaseOperator


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of an application: its public command line, and the files that it needs.

    ``application`` is the entry point, ``py_files`` the zip of this package: paths on the worker, unless the operator's
    arguments name others. ``conf`` is the operator's Spark configuration, and what every start needs. The driver needs
    the variables in ``environment``, which may be secret: never put them into arguments or templates. ``attempt`` names
    this start, and no other has the name; ``generation`` and ``target`` are in the arguments, too.
    """

    application: str
    arguments: tuple[str, ...]
    py_files: str
    conf: Mapping[str, Any]
    environment: Mapping[str, str] = field(repr=False)
    name: str
    task_id: str
    attempt: str
    generation: int
    target: str


Launcher: TypeAlias = Callable[[Launch], BaseOperator]
"""Returns the operator that runs the application to its end. It may defer; its result is ignored."""
