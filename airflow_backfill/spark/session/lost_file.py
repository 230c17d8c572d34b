"""A data file that is lost or damaged: of which table, whether its newest version needs it, and how a build goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_backfill.core.errors import BackfillError, FileDamaged, HistoryLost, SourceUnavailable
from airflow_backfill.core.target_table.foreign_commits import way_back
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.session.failure import lost_history_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def newest_read(table: str | None, spark: SparkSession) -> Iterator[None]:
    """A read of the newest version of the table at this location, if there is one. For a file that is gone it raises
    HistoryLost, or SourceUnavailable if a newer version does not need that file.
    """
    try:
        with lost_history_named():
            yield
    except HistoryLost as lost:
        if table is None or (file := unreadable_file(lost, table)) is None:
            raise
        passing = replaced(file, DeltaLog(open_store(table, spark=spark)))
        if passing is None:
            raise
        raise passing from lost


def with_way_back(error: BackfillError, target: str, log: DeltaLog) -> BackfillError:
    """The error; if it is about a file of the target, another one that also says how the build goes on without it. If
    only older versions have the file, SourceUnavailable: the attempt goes on with the newest one.
    """
    file = unreadable_file(error, target)
    if file is None:
        return error
    if (passing := replaced(file, log)) is not None:
        return passing
    first = log.first_lost(file.rpartition("/")[2])
    if first is None:
        return error
    back = f"{way_back(target, first - 1)}: the build goes on from there, and reads again what came since"
    return type(error)(f"{error.message}; or {back}", **error.data)


def unreadable_file(error: BackfillError, table: str) -> str | None:
    """The file of the table at this location that the error says is lost or damaged; None if it says nothing of one."""
    file = error.data.get("file")
    if not isinstance(error, HistoryLost | FileDamaged) or not isinstance(file, str):
        return None
    return file if f"{urlsplit(table).path.rstrip('/')}/" in unquote(file) else None


def replaced(file: str, log: DeltaLog) -> SourceUnavailable | None:
    """The error if only older versions of the table need this file, which cannot be read; None if the newest does."""
    if not log.dropped(file.rpartition("/")[2]):
        return None
    return SourceUnavailable(
        f"a file was replaced and deleted while it was read, as OPTIMIZE and VACUUM do ({file}); the newest version of "
        "its table does not need it",
        file=file,
    )
