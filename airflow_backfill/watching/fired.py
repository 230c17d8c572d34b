"""What the event of a trigger tells the task that resumes, besides that it may go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

ERROR = "error"
"""The key in an event of the error for which the trigger fires."""
LAST = "last"
"""The key of the last heartbeat that was seen of requested work, if that has ended or is lost."""


def say_error(log: Logger, event: Mapping[str, Any] | None) -> None:
    """Say in the log of a resumed task which error its trigger met. If the task does not meet it, nobody else would
    say why the two send each other to look again and again.
    """
    if event is not None and ERROR in event:
        log.warning(
            "the triggerer met %s. If this task goes on to wait, the triggerer lacks something that the worker has: "
            "a package, a mount, or credentials",
            event[ERROR],
        )
