"""A data file of the target that is lost or damaged: which older version does not need it."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from airflow_backfill.core.errors import BackfillError, FileDamaged, HistoryLost
from airflow_backfill.core.target_table.foreign_commits import way_back
from airflow_backfill.ledger.delta_log import DeltaLog


def with_way_back(error: BackfillError, target: str, log: DeltaLog) -> BackfillError:
    """The error; if it is about a file of the target, another one that also says how the build goes on without it."""
    file = error.data.get("file")
    if not isinstance(error, HistoryLost | FileDamaged) or not isinstance(file, str):
        return error
    if f"{urlsplit(target).path.rstrip('/')}/" not in unquote(file):
        return error
    first = log.first_adding(file.rpartition("/")[2])
    if first is None:
        return error
    back = f"{way_back(target, first - 1)}: the build goes on from there, and reads again what came since"
    return type(error)(f"{error.message}; or {back}", **error.data)
