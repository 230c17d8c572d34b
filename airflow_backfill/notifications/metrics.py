"""The metrics of builds, through Airflow's own statistics: StatsD, DogStatsD or OpenTelemetry, as Airflow is set.

Each one is sent twice, as Airflow does with its own: under one name with tags; and, unless ``[metrics]
legacy_names_on`` is off, under a name that contains the tags' values, for a StatsD without tags. ``docs/metrics.md``
lists them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow.sdk import conf
from airflow.sdk.observability import stats

log = logging.getLogger(__name__)

PREFIX = "table_backfill"


def tell_progress(progress: Mapping[str, Any]) -> None:
    """Send a gauge for each number in the progress of a build; numbers that are not known are left out."""
    for metric, value in gauges(progress):
        _send(stats.gauge, metric, value, name=progress["name"])


def tell_attempt(dag_id: str, task_id: str) -> None:
    """Count an attempt of a task."""
    _send(stats.incr, "attempts", dag_id=dag_id, task_id=task_id)


def tell_error(code: str) -> None:
    """Count an error that ends a task, for good or until its retry."""
    _send(stats.incr, "errors", code=code)


def gauges(progress: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The metrics of a build's progress. Times are seconds."""
    lag = progress["lag"]
    found = {
        "percent": progress["percent"],
        "rows": sum(progress["rows"].values()),
        "rows_per_second": progress.get("rows_per_second"),
        "pending_epochs": lag["epochs"],
        "pending_rows": lag["rows"],
        "pending_age_seconds": _seconds(lag["age"]),
        "retention_left_seconds": _seconds(progress["history_left"]),
        "certified": int(progress["certificate"] is not None),
    }
    return ((metric, value) for metric, value in found.items() if value is not None)


def _send(send: Callable[..., None], metric: str, *value: float, **tags: str) -> None:
    """Send a metric under both names. A task or trigger goes on if that fails."""
    try:
        send(f"{PREFIX}.{metric}", *value, tags=tags)
        if conf.getboolean("metrics", "legacy_names_on"):
            # A dot would be a level of its own in the hierarchy of names.
            named = ".".join(part.replace(".", "__") for part in tags.values())
            send(f"{PREFIX}.{metric}.{named}", *value)
    except Exception as error:
        log.warning("metric %s could not be sent: %s", metric, error)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
