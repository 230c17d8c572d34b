"""Says why an application ended that left no outcome."""

from __future__ import annotations

from airflow_backfill.core.errors import ApplicationFailed
from airflow_backfill.core.values.attempt import Attempt

_NO_ERROR = (
    "its launcher reported success; either that does not wait for the application's end, or the driver writes to "
    "another place than this worker reads from (a path on a disk that they do not share)"
)
_KILLED = ("-9", "137")
"""The statuses of spark-submit, and of a Python that it ran, after SIGKILL."""


def failure(why: str, me: Attempt) -> ApplicationFailed:
    return ApplicationFailed(f"the application ended without an outcome: {why}; see its log", attempt=me.name)


def said(trouble: BaseException | None, *, killed: bool) -> str:
    """The first line of the launcher's error, without the command line, which may contain a secret; and the end of what
    follows, which is of the application's log.
    """
    if killed:
        return "Airflow has ended it, as its task was cleared, marked or stopped, or ran into its execution_timeout"
    if trouble is None:
        return _NO_ERROR
    first, _, more = str(trouble).partition("\n")
    _, cut, status = first.rpartition(" Error code is: ")
    if cut:
        status = status.removesuffix(".")
        why = " (killed, as by the kernel if memory runs out)" if status in _KILLED else ""
        first = f"exit status {status}{why}"
    return "\n".join(filter(None, (first[-2000:], more[-2000:])))
