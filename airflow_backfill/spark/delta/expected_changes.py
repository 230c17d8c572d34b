"""The number of changes that an epoch must yield, according to its commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_backfill.spark.delta.epoch_files import EpochFiles, FileAction
from airflow_backfill.spark.delta.net_files import NetFiles, net_files
from airflow_backfill.spark.source.changes import Expected


def expected_of_feed(files: EpochFiles, *, change_data: bool) -> Expected:
    """The counts of one epoch that is read from the change feed."""
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
    """The counts of changes that are read from files: rows of added files are added, rows of removed files removed."""
    came, went = _live(net.added), _live(net.removed)
    if not net.masked:
        return Expected(epoch, _difference(came, went), came, went, images=False)
    before, after = _live(old for old, _ in net.masked), _live(new for _, new in net.masked)
    growth = _difference(_sum(came, after), _sum(went, before))
    return Expected(epoch, growth, None, None, images=False)


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
