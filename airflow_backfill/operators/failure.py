"""The one place where a coded error of a build becomes a decision of Airflow: fail for good, or try again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core.errors import ApplicationFailed, BackfillError

if TYPE_CHECKING:
    from airflow.sdk import Context

FAILURE = "failure"
"""The key in ``task_state_store`` under which the last coded error of a task is."""


@contextmanager
def decided(context: Context) -> Iterator[None]:
    """Turn coded errors of the block into AirflowFailException, or AirflowException if trying again can help."""
    try:
        yield
    except BackfillError as error:
        context["task_state_store"].set(FAILURE, error.to_json())
        kind = AirflowException if error.retry else AirflowFailException
        raise kind(str(error)) from error


def error_in(outcome: Mapping[str, Any]) -> BackfillError:
    """The error that an attempt's outcome tells of. A code of a newer version keeps its word about retries."""
    kinds = {kind.code: kind for kind in BackfillError.__subclasses__()}
    fallback = ApplicationFailed if outcome["retry"] else BackfillError
    return kinds.get(outcome["code"], fallback)(outcome["message"], **outcome["data"])
