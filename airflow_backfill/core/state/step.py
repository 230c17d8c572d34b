"""What a task wants next: a decision, made from committed state and one observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.model.position import Position
from airflow_backfill.core.model.record import Pending
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.effect import FileSize, Nothing, Work
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.pace import Pace
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that is looked at before a step, at one time (``now``, milliseconds since 1970)."""

    now: int
    source: SourceView
    control: Control
    """The commands in force, those included that no barrier has acknowledged yet."""
    files: Sequence[FileSize] = ()
    pending: Pending | None = None
    """What the next record says of the source: what a task that does not look at it found in the last one."""
    pace: Pace = field(default_factory=Pace)

    def fit(self, size: RoundSize) -> RoundSize:
        """What of ``size`` a round takes now: less after rounds that took long, or under a throttle."""
        return self.pace.of(size).limited(self.control)


@dataclass(frozen=True, slots=True)
class Move:
    """Commit a barrier. What is not named stays as it is."""

    event: Event
    work: Work = field(default_factory=Nothing)
    positions: tuple[Position, ...] | None = None
    does: Totals = field(default_factory=Totals)
    """Files, bytes and epochs of this barrier."""
    rows: int = 0
    """Rows that this barrier reads, by the log's counts: what the throttle counts."""
    bytes: int = 0
    """And in bytes."""
    epochs: EpochRange | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the record that change: bound, handoff, certificate."""


@dataclass(frozen=True, slots=True)
class Certify:
    """Prove the target equal to the transformed source at an epoch, then commit the certificate."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Apply what changed behind the positions of the key ranges, as much as ``log`` takes, and read their next rows, as
    many as ``rows`` takes; none while they are held back.
    """

    log: RoundSize
    rows: RoundSize | None


@dataclass(frozen=True, slots=True)
class Poll:
    """Apply what landed of a topic, as much as ``log`` takes and through epoch ``upto`` if one is named, and read the
    lane's partitions, as much as ``records`` takes; nothing of Kafka if it is None.
    """

    log: RoundSize
    records: RoundSize | None = None
    upto: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """As of a Move."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before ``until`` (milliseconds since 1970), or before something changes."""

    until: int
    why: str
    say: bool = False
    """Whether the record says so at once, and not only when it is renewed."""


@dataclass(frozen=True, slots=True)
class Done:
    """The task's goal is a committed fact."""


Step = Move | Advance | Poll | Certify | Wait | Done
