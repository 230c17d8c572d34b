"""A data file that is lost or damaged: of which table, and which older version of the target does not need it."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from airflow_backfill.core.errors import BackfillError, FileDamaged, HistoryLost, SourceUnavailable
from airflow_backfill.core.target_table.foreign_commits import way_back
from airflow_backfill.ledger.delta_log import DeltaLog


def with_way_back(error: BackfillError, target: str, log: DeltaLog) -> BackfillError:
    """The error; if it is about a file of the target, another one that also says how the build goes on without it. If
    only older versions have the file, SourceUnavailable: the attempt goes on with the newest one.
    """
    file = unreadable_file(error, target)
    if file is None:
        return error
    name = file.rpartition("/")[2]
    if log.dropped(name):
        return SourceUnavailable(
            f"a file of the target was replaced and deleted while it was read, as OPTIMIZE and VACUUM do ({file}); the "
            "newest version of the target does not need it",
            file=file,
        )
    first = log.first_adding(name)
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
