"""The Spark side of a strategy: ``Preparation`` for the planner, ``Rounds`` for the shell that runs a build.

A strategy names the module that holds both (``Traits.on_spark``). No other Spark code may ask which strategy a build
has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame

from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.model.registry import registered
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.splits import Splits
from airflow_backfill.core.state.effect import Effect, FileSize, VerifyTarget, Work
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.target_table.apply import Txn
from airflow_backfill.spark.transform.transform import Transform
from airflow_backfill.spark.verify.proof import Proof

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = 64
"""A plan has at least this many splits if the source is large enough."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a source is cut into splits."""

    splits: Splits
    often: float = 1.0
    """How often its bytes will be read."""
    notes: Sequence[str] = ()
    """Lines for the plan's report."""


class Preparation(ABC):
    """Prepares a build for the planner. ``lanes`` and ``size`` (of a round) are the requested ones."""

    def __init__(self, spark: SparkSession, spec: BackfillSpec, lanes: int, size: RoundSize) -> None:
        self.spark, self.spec, self.lanes, self.size = spark, spec, lanes, size

    @abstractmethod
    def cut(self, found: Preflight) -> Cut:
        """The source's splits."""

    def properties(self) -> Mapping[str, str]:
        """Properties of the target, in addition to those of every build."""
        return {}

    def with_memory(self, draft: Plan, found: Preflight) -> Plan:
        """The draft, with the memory of keys beside its target, if it needs one. Creates that memory, empty."""
        return draft


class Rounds(ABC):
    """Reads and writes the rounds of one build. Made once the plan is known."""

    def __init__(self, spark: SparkSession, plan: Plan, target: str, reader: BuildReader) -> None:
        self.spark, self.plan, self.target, self.reader = spark, plan, target, reader

    @property
    @abstractmethod
    def transform(self) -> Transform: ...

    @property
    def files(self) -> tuple[FileSize, ...]:
        """The pinned files in the plan's order; empty if none are pinned. HistoryLost if they have changed."""
        return ()

    @abstractmethod
    def answer(self, effect: Effect[Any]) -> Any:
        """The answer to an effect that only this strategy yields."""

    @abstractmethod
    def write(self, work: Work, record: Record, txn: Txn, text: str) -> None:
        """Commit the rows of ``work`` with the transaction id ``txn`` and the metadata ``text``, in one commit."""

    @abstractmethod
    def proof(self, positions: tuple[Position, ...]) -> Proof:
        """The comparison of target and source, with the splits at these positions."""

    @abstractmethod
    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        """The certificate; VerificationFailed if target and transformed source differ. ``now``: ms since 1970."""

    @abstractmethod
    def stream(self, session: SparkSession, state: BuildState) -> DataFrame:
        """The source after the state's epoch, as a stream in this session."""


def preparation(spark: SparkSession, spec: BackfillSpec, lanes: int, size: RoundSize) -> Preparation:
    """The preparation of the spec's strategy."""
    return cast(Preparation, _module(spec.strategy).Preparation(spark, spec, lanes, size))


def rounds(spark: SparkSession, plan: Plan, target: str, reader: BuildReader) -> Rounds:
    """The rounds of the plan's strategy."""
    return cast(Rounds, _module(plan.spec.strategy).Rounds(spark, plan, target, reader))


def _module(strategy: str) -> Any:
    return import_module(registered(strategy).on_spark)
