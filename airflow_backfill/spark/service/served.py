"""The work of a request: an application in a thread of a service, with a Spark session of its own."""

from __future__ import annotations

import argparse
from threading import Event
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import ApplicationFailed
from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.options import invalid
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.run.application import concluded, started, work
from airflow_backfill.spark.run.phases import APPLICATIONS, GATE, parser
from airflow_backfill.spark.session.failure import SCRATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def serve(spark: SparkSession, broken: Event, request: Request, stopped: Event) -> None:
    """Do the work of a request, and store its outcome. Spark shares its cores fairly between targets: it never forgets
    a pool, and looks at all of them before each task, so there must not be one for each request. ``broken`` is set if
    Spark's scratch folder was emptied: Spark goes on to look for its subfolders, so later requests would fail, too.
    """
    context, session = spark.sparkContext, spark.newSession()
    context.setLocalProperty("spark.scheduler.pool", request.target)
    context.addJobTag(tag(request))

    def result() -> dict[str, Any]:
        try:
            return work(request.application, _options(request), session, request.attempt, stopped)
        except Exception as error:
            if stopped.is_set():
                raise ApplicationFailed(
                    "the service stopped this work: its task no longer waits for it, or the service ends; the task is "
                    "retried, and continues after the last commit"
                ) from error
            raise

    control = ControlFolder.beside(request.target, session)
    outcome = concluded(control, request.attempt, started(session), result)
    if outcome["code"] != "OK" and outcome["data"].get("where") == SCRATCH:
        broken.set()


def cancel(spark: SparkSession, request: Request) -> None:
    """Cancel the jobs that the request has now."""
    spark.sparkContext.cancelJobsWithTag(tag(request))


def tag(request: Request) -> str:
    """Marks the Spark jobs of a request."""
    return f"request-{request.attempt.name}"


def _options(request: Request) -> argparse.Namespace:
    """The options of the request's application. InvalidSpec for an unknown application, or for another target."""
    applications = [name for name in APPLICATIONS if name != GATE]
    if request.application not in applications:
        raise invalid("application", request.application, f"must be one of {', '.join(applications)}")
    options = parser(request.application).parse_args(request.arguments)
    if options.target != request.target:
        raise invalid("target", options.target, f"must be that of the request, {request.target}")
    return options
