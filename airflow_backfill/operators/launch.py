"""How a Spark application is started by something else than spark-submit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow.sdk import BaseOperator


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of an application: its public command line, and the files that it needs.

    ``application`` is the entry point, ``py_files`` the zip of this package; both are paths on the worker unless
    the operator was told otherwise. ``conf`` is the Spark configuration that the operator was given. The driver needs
    the variables in ``environment``, which may hold secrets: they belong neither into arguments nor into templates.
    """

    application: str
    arguments: tuple[str, ...]
    py_files: str
    conf: Mapping[str, Any]
    environment: Mapping[str, str] = field(repr=False)
    name: str
    task_id: str


Launcher: TypeAlias = Callable[[Launch], BaseOperator]
"""Returns the operator that runs the application to its end; it may defer. What it returns is ignored."""
