"""How many changes of which kind an epoch must yield, by its commit, and whether those that were read are they.

Pure. An epoch that yields nothing is proven like any other: from its actions, never from an empty frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill.core.errors import ChangesIncomplete
from airflow_backfill.spark.delta.epoch_files import EpochFiles, FileAction
from airflow_backfill.spark.delta.net_files import NetFiles, net_files

INSERT, POST_IMAGE, PRE_IMAGE, DELETE = "insert", "update_postimage", "update_preimage", "delete"
COMES = (INSERT, POST_IMAGE)
"""Changes that bring a row."""
GOES = (DELETE, PRE_IMAGE)
"""Changes that take one away."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be read as the changes of one epoch. None: the log does not say."""

    epoch: int
    growth: int | None
    """Rows that come, less rows that go."""
    comes: int | None
    goes: int | None
    images: bool
    """Updates come from change data: every post-image has its pre-image."""


def expected_of_feed(files: EpochFiles, *, change_data: bool) -> Expected:
    """For an epoch read by itself."""
    if files.no_op or not files.data_change:
        return Expected(files.epoch, 0, 0, 0, images=False)
    net = net_files([files])
    if not (change_data and files.changes):
        return expected_of_files(files.epoch, net)
    masked_before, masked_after = _live(old for old, _ in net.masked), _live(new for _, new in net.masked)
    came, went = _live(net.added), _sum(_live(net.removed), _difference(masked_before, masked_after))
    return Expected(
        files.epoch,
        growth=_difference(came, went),
        comes=_difference(came, files.copied),
        goes=_difference(went, files.copied),
        images=True,
    )


def expected_of_files(epoch: int, net: NetFiles) -> Expected:
    """For what files make by themselves: rows of new files come, rows of files that are gone go."""
    came, went = _live(net.added), _live(net.removed)
    if not net.masked:
        return Expected(epoch, _difference(came, went), came, went, images=False)
    before, after = _live(old for old, _ in net.masked), _live(new for _, new in net.masked)
    growth = _difference(_sum(came, after), _sum(went, before))
    return Expected(epoch, growth, None, None, images=False)


def prove(expected: Sequence[Expected], read: Mapping[tuple[int, str], int]) -> frozenset[int]:
    """Raise ChangesIncomplete unless the counts that were read (by epoch and type) are what they must be.

    Returns the epochs whose change data is not all of the change (some writers leave pre-images out): their data
    files have to be read instead.
    """
    lacking = set()
    by_epoch: dict[int, dict[str, int]] = {}
    for (epoch, kind), count in read.items():
        by_epoch.setdefault(epoch, {})[kind] = count
    for one in expected:
        wrong = _wrong(one, by_epoch.get(one.epoch, {}))
        if wrong is not None and one.images:
            lacking.add(one.epoch)
        elif wrong is not None:
            what, must, did = wrong
            raise ChangesIncomplete(
                f"epoch {one.epoch}: {what} must be {must} by its commit, {did} were read",
                epoch=one.epoch,
                what=what,
                expected=must,
                read=did,
            )
    odd = sorted(by_epoch.keys() - {one.epoch for one in expected})
    if odd:
        raise ChangesIncomplete(f"changes of epoch {odd[0]} were read, which was not asked for", epoch=odd[0])
    return frozenset(lacking)


def _wrong(one: Expected, read: Mapping[str, int]) -> tuple[str, int, int] | None:
    comes = sum(read.get(kind, 0) for kind in COMES)
    goes = sum(read.get(kind, 0) for kind in GOES)
    counts = [
        ("rows gained", one.growth, comes - goes),
        ("rows that come", one.comes, comes),
        ("rows that go", one.goes, goes),
    ]
    if one.images:
        counts.append(("pre-images", read.get(POST_IMAGE, 0), read.get(PRE_IMAGE, 0)))
    return next(((what, must, did) for what, must, did in counts if must is not None and must != did), None)


def _live(files: Iterable[FileAction]) -> int | None:
    total = 0
    for file in files:
        if file.rows is None:
            return None
        total += file.rows if file.data_change else 0
    return total


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _difference(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other
