"""A rehearsal: the source's own recent commits are replayed, by their times and sizes, against a build that copies and
applies them at given speeds. Does it catch up, when, and at which hour would it be fastest to begin?

The past is replayed over and over: what happened in the last hours is expected to happen again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.round_size import RoundSize

HOUR = 3_600_000
CAUGHT_UP_SECONDS = 300.0
"""The build has caught up when nothing that is pending is older than this."""
MAX_ROUNDS = 30_000


class Replay:
    """Commits over time, in seconds since the start: those of the past, again and again."""

    def __init__(self, epochs: Sequence[Epoch], now: int, files: int = 0, file_bytes: float = 0.0) -> None:
        """``epochs``: oldest first, as they were listed ``now``, in milliseconds. The start is the time of the first of
        them. ``files`` of ``file_bytes`` each: the table's.
        """
        self.began = epochs[0].at if epochs else now
        ended = epochs[-1].at if epochs else now
        # The clock of the source's writers may be ahead of the planner's.
        self.seconds = max((max(now, ended) - self.began) / 1000, 1.0)
        self._times = [(epoch.at - self.began) / 1000 for epoch in epochs]
        self._rows = [0, *accumulate(epoch.rows for epoch in epochs)]
        # A file that an epoch changes is removed and added.
        self._files = [0, *accumulate(0 if epoch.only_adds else -(-epoch.files // 2) for epoch in epochs)]
        self._table_files, self._file_bytes = files, file_bytes

    def load(self, speeds: Speeds) -> float:
        """The share of its time that a build spends on the changes alone: from 1 on, it falls behind for ever."""
        return (self._rows[-1] / speeds.apply_rows + len(self._times) * speeds.epoch_seconds) / self.seconds

    def epochs(self, until: float) -> int:
        """Epochs committed before a time."""
        cycles, rest = divmod(until, self.seconds)
        return int(cycles) * len(self._times) + bisect_left(self._times, rest)

    def rows(self, epochs: int) -> int:
        """Changed rows of the first ``epochs``."""
        return self._of(epochs, self._rows)

    def touched_bytes(self, first: int, stop: int) -> float:
        """About as many bytes are in the files that the epochs from ``first`` up to ``stop`` change."""
        files = self._of(stop, self._files) - self._of(first, self._files)
        return min(files, self._table_files) * self._file_bytes

    def _of(self, epochs: int, sums: Sequence[int]) -> int:
        if not self._times:
            return 0
        cycles, rest = divmod(epochs, len(self._times))
        return cycles * sums[-1] + sums[rest]

    def time(self, epoch: int) -> float:
        """When an epoch, counted from 0, was committed."""
        cycles, rest = divmod(epoch, len(self._times))
        return cycles * self.seconds + self._times[rest]


@dataclass(frozen=True, slots=True)
class Course:
    """How a build goes that begins at one time of the replay. Seconds."""

    snapshot: float
    pending: int
    """Epochs that are pending when the snapshot is read."""
    caught_up: float | None
    """From the end of the snapshot until the build has caught up; None for never."""
    worst_lag: float | None
    """The greatest age of a pending epoch during one more replay of the past; None if it never catches up."""


def course(
    replay: Replay, snapshot: float, speeds: Speeds, size: RoundSize, start: float = 0.0, planning: float = 0.0
) -> Course:
    """The course of a build whose epoch is pinned at ``start`` in the replay. ``planning`` seconds later its snapshot
    begins, which takes ``snapshot`` seconds.
    """
    sealed = start + planning + snapshot
    time, applied = sealed, replay.epochs(start)
    pending = replay.epochs(time) - applied
    first = speeds.log_warm_up_seconds
    caught: float | None = None
    worst = 0.0
    if replay.load(speeds) >= 1:
        return Course(snapshot, pending, None, None)
    for _ in range(MAX_ROUNDS):
        head = replay.epochs(time)
        if head > applied:
            taken = _fitting(replay, applied, head, size)
            rows = replay.rows(taken) - replay.rows(applied)
            time += first + speeds.log_seconds(taken - applied, rows, replay.touched_bytes(applied, taken))
            first, applied, head = 0.0, taken, replay.epochs(time)
        elif caught is not None and head:
            time = max(replay.time(head), time) + 0.001
        lag = time - replay.time(applied) if head > applied else 0.0
        if caught is None and lag <= CAUGHT_UP_SECONDS:
            caught = time
        if caught is not None:
            worst = max(worst, lag)
            if time > caught + replay.seconds or head == 0:
                return Course(snapshot, pending, caught - sealed, worst)
    return Course(snapshot, pending, None if caught is None else caught - sealed, None)


def _fitting(replay: Replay, applied: int, head: int, size: RoundSize) -> int:
    """The epoch up to which a round goes: as many as it holds, at least one."""
    most = min(head, applied + size.epochs)
    while most > applied + 1 and replay.rows(most) - replay.rows(applied) > size.rows:
        most = applied + (most - applied) // 2
    return most


def rehearse(replay: Replay, snapshot: float, speeds: Speeds, size: RoundSize, planning: float = 0.0) -> dict[str, Any]:
    """The rehearsal as plain JSON; see ``docs/schema``. Seconds as for ``course``."""
    now = course(replay, snapshot, speeds, size, planning=planning)
    return {
        "measured": speeds.measured,
        "copy_bytes_per_second": round(speeds.copy_bytes),
        "apply_rows_per_second": round(speeds.apply_rows),
        "round_seconds": round(speeds.round_seconds, 2),
        "epoch_seconds": round(speeds.epoch_seconds, 4),
        "start_seconds": speeds.start_seconds,
        "warm_up_seconds": round(speeds.warm_up_seconds, 2),
        "log_warm_up_seconds": round(speeds.log_warm_up_seconds, 2),
        "crowding": round(speeds.crowding, 2),
        "replayed_epochs": replay.epochs(replay.seconds * 0.999999),
        "replayed_seconds": round(replay.seconds),
        "snapshot_seconds": round(now.snapshot, 1),
        "pending_after_snapshot": now.pending,
        "log_seconds": None if now.caught_up is None else round(now.caught_up, 1),
        "worst_lag_seconds": None if now.worst_lag is None else round(now.worst_lag, 1),
        "converges": now.caught_up is not None,
        "best_start": _best(replay, snapshot, speeds, size, planning),
    }


def _best(replay: Replay, snapshot: float, speeds: Speeds, size: RoundSize, planning: float) -> dict[str, Any] | None:
    """The hour (UTC) at which a build would be fastest; None if less than two hours are known, or it never is."""
    first = -(-replay.began // HOUR) * HOUR
    starts = range(first, replay.began + int(replay.seconds * 1000), HOUR)
    if len(starts) < 2:
        return None
    found = []
    for at in starts:
        one = course(replay, snapshot, speeds, size, (at - replay.began) / 1000, planning)
        if one.caught_up is not None:
            found.append((one.snapshot + one.caught_up, at // HOUR % 24))
    if not found:
        return None
    seconds, hour = min(found)
    return {"hour": hour, "seconds": round(seconds, 1)}


def described(found: dict[str, Any]) -> list[str]:
    """The rehearsal as lines."""
    speeds = "measured on a sample" if found["measured"] else "as usual for so many cores"
    if found["crowding"] != 1:
        speeds += f"; everything takes {found['crowding']:g} times as long, as the plan's own tasks did, because of "
        speeds += "the machine, other programs on its cores, or the store"
    lines = [
        f"rehearsal: the last {lasting(found['replayed_seconds'])} with {found['replayed_epochs']:,} epochs, replayed; "
        f"copies {found['copy_bytes_per_second']:,} bytes/s, applies {found['apply_rows_per_second']:,} rows/s, "
        f"{found['round_seconds']:g} s for each round ({speeds})"
    ]
    if not found["converges"]:
        return [*lines, "  never catches up: the source changes faster than the build applies; give Spark more cores"]
    worst = found["worst_lag_seconds"]
    behind = "" if worst is None else f"; then at most {lasting(worst)} behind"
    lines.append(
        f"  snapshot in {lasting(found['snapshot_seconds'])}, {found['pending_after_snapshot']:,} epochs pending, "
        f"caught up {lasting(found['log_seconds'])} later{behind}"
    )
    best = found["best_start"]
    if best is not None:
        lines.append(f"  fastest if it begins at {best['hour']:02}:00 UTC: {lasting(best['seconds'])} in all")
    return lines
