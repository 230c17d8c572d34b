"""The Spark side of a strategy: two objects, one for the planner and one for whoever works on the build.

A strategy names the module that holds them (``Traits.on_spark``). The planner and the shell ask these questions, and
no other code of Spark's side may ask which strategy a build has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

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
"""Splits of a plan, at least, where there is enough to cut."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a source is cut into splits."""

    splits: Splits
    often: float = 1.0
    """How often its bytes will be read."""
    notes: Sequence[str] = ()
    """What the plan's report says about it."""


class Preparation(Protocol):
    """What a planner asks. Made from the session, the spec, and the wanted lanes and size of a round."""

    def __init__(self, spark: SparkSession, spec: BackfillSpec, lanes: int, size: RoundSize) -> None: ...

    def one_lane(self) -> str | None:
        """Why the build can have one lane only; None if it can have several."""

    def cut(self, found: Preflight) -> Cut:
        """The source's splits."""

    def properties(self) -> Mapping[str, str]:
        """Of the target, beside those of every build."""

    def with_memory(self, draft: Plan, found: Preflight) -> Plan:
        """The draft, with what the build remembers beside its target: that is made here."""


class Rounds(Protocol):
    """What a shell asks. Made for one build, once its plan is known."""

    def __init__(self, spark: SparkSession, plan: Plan, target: str, reader: BuildReader) -> None: ...

    @property
    def transform(self) -> Transform: ...

    @property
    def files(self) -> tuple[FileSize, ...]:
        """The pinned files in the plan's order; none where none are pinned. HistoryLost if they are others now."""

    def answer(self, effect: Effect[Any]) -> Any:
        """The answer to an effect that only this strategy asks for."""

    def write(self, work: Work, record: Record, txn: Txn, text: str) -> None:
        """Commit the rows of ``work``, with ``txn`` and ``text``, in one commit."""

    def proof(self, positions: tuple[Position, ...]) -> Proof:
        """How the target is compared with the source, where the splits stand there."""

    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        """The certificate; VerificationFailed if the target is not what the source says."""

    def stream(self, session: SparkSession, state: BuildState) -> DataFrame:
        """What the source got after the state's epoch, as a stream in this session."""


def preparation(spark: SparkSession, spec: BackfillSpec, lanes: int, size: RoundSize) -> Preparation:
    """Of the strategy that the spec names."""
    return cast(Preparation, _module(spec.strategy).Preparation(spark, spec, lanes, size))


def rounds(spark: SparkSession, plan: Plan, target: str, reader: BuildReader) -> Rounds:
    """Of the strategy of the build."""
    return cast(Rounds, _module(plan.spec.strategy).Rounds(spark, plan, target, reader))


def _module(strategy: str) -> Any:
    return import_module(registered(strategy).on_spark)
