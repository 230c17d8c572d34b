"""The changes of a range of epochs of a Delta table, read by the cheapest correct routes.

The expected counts follow from the files that the commits name. See ``source.changes`` for the shape of the rows and
the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_backfill.core.delta.route import Footprint, Leg, Route, choose
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.delta.epoch_files import EpochFiles, read_epochs
from airflow_backfill.spark.delta.expected_changes import expected_of_feed, expected_of_files
from airflow_backfill.spark.delta.net_files import net_files
from airflow_backfill.spark.delta.route_difference import read_difference
from airflow_backfill.spark.delta.vector_changes import MANY_ROWS
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.changes import CHANGE_TYPE, EPOCH, Changes
from airflow_backfill.spark.transform.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_changes(
    spark: SparkSession,
    source: str,
    epochs: EpochRange,
    columns: Sequence[str],
    key: Sequence[str] | None,
    *,
    feed: bool = True,
) -> Changes:
    """The changes of ``epochs`` (at least one) of the table at ``source``, with these ``columns``. Some routes read
    only the ``key`` of a removed row; all columns if it is None.

    Without ``feed`` the table needs no change data feed. Raises HistoryLost if a commit is gone.
    """
    files = read_epochs(spark, source, epochs)
    return read_legs(spark, source, files, choose(footprints(files, feed=feed)), columns, key, feed=feed)


def read_legs(
    spark: SparkSession,
    source: str,
    epochs: Sequence[EpochFiles],
    legs: Sequence[Leg],
    columns: Sequence[str],
    key: Sequence[str] | None,
    *,
    feed: bool = True,
    distrusted: frozenset[int] = frozenset(),
) -> Changes:
    """The changes of ``epochs``, each read by the route of its leg."""
    first = epochs[0].epoch
    versions = {end: DeltaVersion(spark, source, end) for end in {_read_at(leg, epochs) for leg in legs}}
    frames, expected, moved, keys_only = [], [], False, False
    for leg in legs:
        version = versions[_read_at(leg, epochs)]
        here = epochs[leg.epochs.start - first : leg.epochs.stop - first]
        if leg.route is Route.FEED:
            names = [*(quoted(c) for c in columns), CHANGE_TYPE, EPOCH]
            frames.append(version.feed(leg.epochs, from_files=not feed).select(*names))
            expected += [expected_of_feed(one, change_data=feed) for one in here]
        else:
            net = net_files(here)
            frames.append(read_difference(version, leg.epochs, net, columns, key))
            expected.append(expected_of_files(leg.epochs.last, net))
            moved = moved or net.moved
            keys_only = keys_only or (key is not None and net.surely_removed)

    def distrusting(lacking: frozenset[int]) -> Changes:
        out = distrusted | lacking
        others = choose(footprints(epochs, feed=feed, distrusted=out))
        return read_legs(spark, source, epochs, others, columns, key, feed=feed, distrusted=out)

    return Changes(
        frame=reduce(DataFrame.union, frames),
        how=[f"epochs {o.epochs.start} to {o.epochs.last} by {o.route.value}: {o.reason}" for o in legs],
        keys_only=keys_only,
        moved=moved,
        only_adds=all(one.only_adds for one in epochs),
        expected=tuple(expected),
        distrusting=distrusting,
        bytes=sum(leg.cost for leg in legs),
        identity=lambda: fingerprint(
            [[(f.path, f.vector) for f in (*e.added, *e.removed, *e.changes)] for e in epochs]
        ),
        last=CommitId(epochs[-1].epoch, epochs[-1].digest),
    )


def _read_at(leg: Leg, epochs: Sequence[EpochFiles]) -> int:
    """The version by whose protocol a leg is read: without the feature, Delta ignores deletion vectors."""
    upgraded = any(one.upgrades and one.epoch > leg.epochs.last for one in epochs)
    return leg.epochs.last if upgraded else epochs[-1].epoch


def footprints(
    epochs: Sequence[EpochFiles], *, feed: bool = True, distrusted: frozenset[int] = frozenset()
) -> list[Footprint]:
    """What can be read of each epoch, for the choice of a route."""
    return [_footprint(one, one.epoch in distrusted, feed) for one in epochs]


def _footprint(files: EpochFiles, distrusted: bool, feed: bool) -> Footprint:
    touched = [f for f in (*files.added, *files.removed) if f.data_change]
    paths = {f.path: f.size for f in touched}
    again = len(paths) < len(touched)
    masked = net_files([files]).masked if again else ()
    return Footprint(
        epoch=files.epoch,
        changes=[f.size for f in files.changes] if feed else (),
        files=paths,
        masked=again,
        long=any(old.vector and new.vector and old.hidden + new.hidden > MANY_ROWS for old, new in masked),
        rewrites=files.rewrites,
        reshapes=files.reshapes,
        upgrades=files.upgrades,
        distrusted=distrusted,
    )
