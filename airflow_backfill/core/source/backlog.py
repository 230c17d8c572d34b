"""The pending epochs of the source: a sequence whose slices, counts and sums take the same time for ten epochs as for a
million.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import eq
from typing import overload

from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.round_size import RoundSize


class Backlog(Sequence[Epoch]):
    """Consecutive epochs, in order. A slice, or a backlog with more epochs at its end, shares the epochs."""

    __slots__ = ("_epochs", "_start", "_stop", "_stopping", "_sums")

    def __init__(self, epochs: Iterable[Epoch] = ()) -> None:
        self._epochs = list(epochs)
        self._sums = list(accumulate((epoch.rows for epoch in self._epochs), initial=0))
        self._stopping = [place for place, epoch in enumerate(self._epochs) if epoch.stop is not None]
        self._start, self._stop = 0, len(self._epochs)

    @property
    def stopping(self) -> Epoch | None:
        """The first epoch that stops the build; None if none does."""
        nth = bisect_left(self._stopping, self._start)
        found = nth < len(self._stopping) and self._stopping[nth] < self._stop
        return self._epochs[self._stopping[nth]] if found else None

    @property
    def rows(self) -> int:
        """The changed rows of all epochs."""
        return self._sums[self._stop] - self._sums[self._start]

    def followed_by(self, more: Iterable[Epoch]) -> Backlog:
        """These epochs and ``more``. Copies only if other epochs follow in the shared list, or if this is less than
        half of it.
        """
        whole = self._stop == len(self._epochs) and self._start <= len(self)
        longer = self[:] if whole else Backlog(self)
        for epoch in more:
            if epoch.stop is not None:
                longer._stopping.append(len(longer._epochs))
            longer._epochs.append(epoch)
            longer._sums.append(longer._sums[-1] + epoch.rows)
        longer._stop = len(longer._epochs)
        return longer

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Epoch]:
        return map(self._epochs.__getitem__, range(self._start, self._stop))

    @overload
    def __getitem__(self, at: int) -> Epoch: ...
    @overload
    def __getitem__(self, at: slice) -> Backlog: ...
    def __getitem__(self, at: int | slice) -> Epoch | Backlog:
        places = range(self._start, self._stop)[at]
        if isinstance(places, int):
            return self._epochs[places]
        if places.step != 1:
            raise ValueError(f"epochs must be consecutive, so the step must be 1, not {places.step}")
        part = Backlog.__new__(Backlog)
        part._epochs, part._sums, part._stopping = self._epochs, self._sums, self._stopping
        part._start, part._stop = places.start, max(places.start, places.stop)
        return part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backlog) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash((len(self), self.rows))


def fitting(epochs: Backlog, size: RoundSize) -> Backlog:
    """The first epochs that fit one round: at least one, but none from the first epoch that stops the build."""
    count, taken = 0, (0, 0, 0, 0)
    for epoch in epochs[: size.epochs]:
        taken = (taken[0] + epoch.bytes, taken[1] + epoch.rows, taken[2] + epoch.files, taken[3] + epoch.cuts)
        if epoch.stop is not None or (count and not size.holds(*taken)):
            break
        count += 1
    return epochs[:count]
