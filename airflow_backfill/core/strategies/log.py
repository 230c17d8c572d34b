"""The next round of the log: several epochs, or a part of one.

A round takes consecutive epochs, as many as fit, and applies the last change of each key (a group: S000.24). An epoch
that exceeds a round is applied in key buckets. The first of these rounds fixes the number of buckets; only the last one
claims the epoch.

A throttle makes rounds small. An epoch that cannot be split is read whole, and the lane waits afterwards: an epoch of a
source without feed or key, or one with many bytes, because each part reads all of them, and they count each time.
"""

from __future__ import annotations

from airflow_backfill.core.errors import Discontinuous
from airflow_backfill.core.source.backlog import fitting
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position
from airflow_backfill.core.state.effect import ApplyEpochs, Nothing, Work
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Follow, Held, Move, Observed, Wait
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import PART_SECONDS, RoundSize
from airflow_backfill.core.values.totals import Totals


def next_epochs(state: BuildState, observed: Observed, size: RoundSize, *, upto: int | None = None) -> Move | None:
    """The next round of the pending epochs (through ``upto``, if given); None if none is pending."""
    applied = state.applied
    assert applied is not None
    pending = observed.source.pending(applied)
    if upto is not None:
        pending = pending[: max(upto - applied, 0)]
    if not pending:
        return None
    first = pending[0]
    if first.number != applied + 1:
        raise Discontinuous(
            f"the next epoch of the source is {first.number}, but the last applied one is {applied}",
            applied=applied,
            found=first.number,
        )
    if first.stop is not None:
        raise first.stop
    if state.part is not None:
        return _part(state, first, state.part.done, state.part.of)
    # Appended rows need no memory, however many, and without a key there are no key buckets.
    rows = size.limited(observed.control, PART_SECONDS).rows
    parts = 1 if state.plan.appends else max(-(-first.rows // rows), -(-first.weight // size.bytes))
    if parts > 1:
        return _part(state, first, 0, parts)
    taken = fitting(pending, observed.fit(size))
    epochs = EpochRange(first.number, first.number + len(taken))
    work: Work = Nothing() if all(epoch.quiet for epoch in taken) else ApplyEpochs(epochs)
    read = sum(epoch.bytes for epoch in taken)
    return _move(state, epochs, work, Consumed(epochs.last), taken.rows, read)


def follow(state: BuildState, observed: Observed, step: Follow, held: Held | None) -> Move | Wait:
    """The next round of the log, or the wait that holds it back."""
    move = next_epochs(state, observed, step.size, upto=step.upto)
    assert move is not None, "nothing is pending"
    return move if held is None else held.wait


def _part(state: BuildState, epoch: Epoch, done: int, of: int) -> Move:
    reached: Position = Consumed(epoch.number) if done + 1 == of else InEpoch(epoch.number, done + 1, of)
    epochs = EpochRange(epoch.number, epoch.number + 1)
    return _move(state, epochs, ApplyEpochs(epochs, done, of), reached, -(-epoch.rows // of), epoch.bytes)


def _move(state: BuildState, epochs: EpochRange, work: Work, reached: Position, rows: int, read: int) -> Move:
    count = len(epochs) if isinstance(reached, Consumed) else 0
    live = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    return Move(
        Event.EPOCHS,
        work=work,
        positions=(reached,) * len(state.positions),
        does=Totals(upstream_epochs=count) if live else Totals(log_epochs=count),
        rows=rows,
        bytes=read,
        epochs=epochs,
    )
