"""The one place that turns a coded error into a decision of Airflow: fail for good, or retry."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.way_out import way_out
from airflow_backfill.notifications.metrics import tell_error
from airflow_backfill.notifications.shown import show

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

FAILURE = "failure"
"""The key of the last coded error of a task: in ``task_state_store``, and in the context of its callbacks."""


def last_try(context: Context) -> bool:
    """Whether Airflow does not retry this task instance by itself."""
    ti = context["ti"]
    return ti.try_number > ti.max_tries


@contextmanager
def decided(context: Context) -> Iterator[None]:
    """Turn coded errors of the block into AirflowFailException, or AirflowException if a retry can help."""
    try:
        yield
    except BackfillError as error:
        failure = error.to_json()
        said = way_out(error.code, retry=error.retry, last_try=last_try(context))
        show(context, FAILURE, failure)
        # For callbacks and the templates of notifiers, which Airflow gives the same context.
        cast("dict[str, Any]", context)[FAILURE] = {**failure, "way_out": said}
        tell_error(error.code)
        log.error("%s: %s", error.code, said)
        kind = AirflowException if error.retry else AirflowFailException
        raise kind(str(error)) from error
