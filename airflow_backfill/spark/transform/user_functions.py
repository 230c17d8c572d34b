"""The user's own functions in ``select`` and ``where``, by name. See ``installed`` for how to install them.

A spec names each with its version: ``functions={"to_eur": "3"}``. Both are part of the plan, and another version where
Spark runs stops the build. A function must always return the same value for the same arguments; change its version when
it returns another one. The group of entry points is ``airflow_backfill.functions``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from airflow_backfill.core.errors import FunctionInvalid
from airflow_backfill.spark.transform.functions import ALLOWED
from airflow_backfill.spark.transform.installed import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Function:
    """A function with a version. It returns the type ``returns`` (Spark's DDL)."""

    returns: str
    version: str

    def make(self, session: SparkSession, name: str) -> None:
        """Let SQL of this session call it."""
        raise NotImplementedError


@dataclass(frozen=True)
class PythonFunction(Function):
    """A Python function of one row's values. None is null. An exception fails the round."""

    function: Callable[..., Any]

    def make(self, session: SparkSession, name: str) -> None:
        # Without Arrow, which converts values that do not fit the type by rules of its own.
        session.udf.register(name, F.udf(self.function, DataType.fromDDL(self.returns), useArrow=False))


@dataclass(frozen=True)
class JavaFunction(Function):
    """A class on Spark's class path that implements one of ``UDF0`` to ``UDF22``."""

    class_name: str

    def make(self, session: SparkSession, name: str) -> None:
        session.udf.registerJavaFunction(name, self.class_name, DataType.fromDDL(self.returns))


FUNCTIONS = Registry("function", "airflow_backfill.functions", Function, FunctionInvalid)
register = FUNCTIONS.register
"""``register(name, function)``: for an entry script of the user's own."""


def make_functions(session: SparkSession, wanted: Mapping[str, str]) -> frozenset[str]:
    """Let SQL of this session call the functions ``wanted`` (versions by name). Returns their names in lower case.

    FunctionInvalid if one is not installed, has another version, or has the name of a Spark function.
    """
    for name, version in wanted.items():
        if name.lower() in ALLOWED:
            raise FunctionInvalid(
                f"functions: {name!r} is the name of a Spark function, so expressions would be ambiguous; give your "
                "function another name",
                function=name,
            )
        found = FUNCTIONS.find(name)
        if found.version != version:
            raise FunctionInvalid(
                f"function {name!r} has version {found.version} where Spark runs, but the spec names {version}; the "
                "same row could become another one; install that version and clear the task, or name "
                f"{found.version!r} in functions and plan again with on_existing='restart'",
                function=name,
                found=found.version,
                wanted=version,
            )
        found.make(session, name)
    return frozenset(name.lower() for name in wanted)
