"""The next step of a task, decided from committed state and one observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.record import Pending
from airflow_backfill.core.source.looks import NEVER, Looks
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.state.effect import FileSize, Nothing, Work
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.pace import Pace
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.core.values.totals import Totals


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that is read before a step, at one time (``now``, milliseconds since 1970)."""

    now: int
    source: SourceView
    control: Control
    """The commands in force, including those that no barrier has acknowledged yet."""
    files: Sequence[FileSize] = ()
    pending: Pending | None = None
    """``pending`` of the next record; a task that does not read the source copies it from the last record."""
    pace: Pace = field(default_factory=Pace)
    looks: Looks = NEVER

    def fit(self, size: RoundSize) -> RoundSize:
        """The size of the next round: ``size``, or less after long rounds or under a throttle."""
        return self.pace.of(size).limited(self.control)


class Keep(Enum):
    """Stands for the value in the last record."""

    KEEP = "keep"


KEEP = Keep.KEEP


@dataclass(frozen=True, slots=True)
class Changes:
    """The fields of the record that a barrier changes."""

    bound: Bound | Keep | None = KEEP
    handoff: int | Keep | None = KEEP
    certificate: Certificate | Keep | None = KEEP
    control: Control | Keep = KEEP
    cost: Cost | Keep | None = KEEP
    next_lanes: int | None = None
    decided_by: int | Keep | None = KEEP
    waits: str | None = None


_Value = TypeVar("_Value")


def or_else(change: _Value | Keep, kept: _Value) -> _Value:
    """``change``, or ``kept`` if that is KEEP."""
    return kept if isinstance(change, Keep) else change


@dataclass(frozen=True, slots=True)
class Move:
    """Commit a barrier. Fields that are not given keep their value."""

    event: Event
    work: Work = field(default_factory=Nothing)
    positions: tuple[Position, ...] | None = None
    does: Totals = field(default_factory=Totals)
    """Files, bytes and epochs of this barrier."""
    rows: int = 0
    """Rows that this barrier reads, by the log's counts. The throttle counts them."""
    bytes: int = 0
    """The same in bytes."""
    epochs: EpochRange | None = None
    changes: Changes = field(default_factory=Changes)


@dataclass(frozen=True, slots=True)
class Certify:
    """Prove the target equal to the transformed source at an epoch, then commit the certificate."""

    epoch: int
    row_hash: RowHash
    kind: ProofKind
    sample: float = 0.0


@dataclass(frozen=True, slots=True)
class Read:
    """Take the next round of the snapshot, as the build's strategy decides."""

    size: RoundSize


@dataclass(frozen=True, slots=True)
class Follow:
    """Take the next round of the log, at most through epoch ``upto``. At least one epoch is pending."""

    size: RoundSize
    upto: int | None = None
    bound: Bound | None = None
    """The new bound if the round completes an epoch."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before ``until`` (milliseconds since 1970), unless something changes."""

    until: int
    why: str
    say: bool = False
    """Whether to write a record with the reason at once, not only at the next heartbeat."""
    for_commit: bool = False
    """See ``SleepUntil``."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is held back now: by a pause, a rate of 0, or a throttle."""

    wait: Wait
    throttled: bool
    """Whether only the throttle holds it back."""


@dataclass(frozen=True, slots=True)
class Done:
    """The task's goal is committed."""


Step = Move | Read | Follow | Certify | Wait | Done
