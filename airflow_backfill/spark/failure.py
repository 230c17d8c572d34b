"""What an error of Spark or Delta means for a round: another writer came first, or something that is needed is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from py4j.protocol import Py4JJavaError

from airflow_backfill.core.errors import HistoryLost


class Conflict(str, Enum):
    """Why Delta refused a commit although the work itself was right."""

    TRANSACTION = "concurrent transaction"
    """Another attempt committed with our transaction id: the only conflict that is about fencing."""
    APPEND = "concurrent append"
    DELETE_READ = "concurrent delete of files that were read"
    DELETE_DELETE = "concurrent delete of files that were deleted"
    METADATA = "metadata changed"
    PROTOCOL = "protocol changed"
    WRITE = "concurrent write"


_CONFLICTS = {
    "ConcurrentTransactionException": Conflict.TRANSACTION,
    "ConcurrentAppendException": Conflict.APPEND,
    "ConcurrentDeleteReadException": Conflict.DELETE_READ,
    "ConcurrentDeleteDeleteException": Conflict.DELETE_DELETE,
    "MetadataChangedException": Conflict.METADATA,
    "ProtocolChangedException": Conflict.PROTOCOL,
    "ConcurrentWriteException": Conflict.WRITE,
    "DeltaConcurrentModificationException": Conflict.WRITE,
    "CommitFailedException": Conflict.WRITE,
}
_GONE = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FAILED_READ_FILE.DBR_FILE_NOT_EXIST")
_PATH = re.compile(r"(?:file|path|File) ([^\s,]+\.(?:parquet|bin|json))")


def classify(error: BaseException) -> Conflict | None:
    """Which conflict with another writer the error is, None if it is none."""
    for name, _ in _causes(error):
        if name in _CONFLICTS:
            return _CONFLICTS[name]
    return None


def history_lost(error: BaseException) -> HistoryLost | None:
    """The error as HistoryLost if it says that a file which the log names is not there any more."""
    for name, message in _causes(error):
        if name == "FileNotFoundException" or any(condition in message for condition in _GONE):
            named = _PATH.search(message)
            what = named.group(1) if named else message.strip().splitlines()[0][:300]
            return HistoryLost(f"a file that the log names is gone: {what}", file=what)
    return None


@contextmanager
def lost_history_named() -> Iterator[None]:
    """Raises HistoryLost in place of an error that says so in Spark's words."""
    try:
        yield
    except Exception as error:
        lost = history_lost(error)
        if lost is None:
            raise
        raise lost from error


def _causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Name and message of the Python error, then of each Java error behind it."""
    yield type(error).__name__, str(error)
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while java is not None:
        yield java.getClass().getSimpleName(), java.getMessage() or ""
        java = java.getCause()
