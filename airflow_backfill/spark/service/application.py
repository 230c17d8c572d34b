"""The service application: serves the requests in a folder, each in a thread."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from functools import partial
from threading import Event

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.arguments import Arguments
from airflow_backfill.core.values.options import invalid
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.spark.service.service import Service

LEAST = {"at_once": 1, "max_runtime": 1, "drain": 0}
"""The minimum of each numeric option."""


def parser() -> argparse.ArgumentParser:
    """The public command line."""
    arguments = Arguments(prog="service")
    arguments.add_argument("--service", required=True, help="location of the service's folder")
    arguments.add_argument("--at-once", type=int, default=8, help="number of requests whose work runs at once")
    help_ = "seconds after which it takes no more requests"
    arguments.add_argument("--max-runtime", type=float, default=14_400.0, help=help_)
    help_ = "seconds that requests then may go on; what still runs is stopped, and its task is retried"
    arguments.add_argument("--drain", type=float, default=600.0, help=help_)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the time is over. Returns the exit code: 0, or 2 for a wrong command line."""
    from pyspark import InheritableThread

    from airflow_backfill.spark.run.application import session
    from airflow_backfill.spark.run.watchdog import watchdog
    from airflow_backfill.spark.service.served import cancel, serve

    form = "%(asctime)s %(levelname)s [%(threadName)s] %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        options = checked(parser().parse_args(argv))
        spark = session()
        folder = ServiceFolder.at(options.service, spark)
    except BackfillError as error:
        logging.error("nothing was begun: %s", error)
        return 2
    context, reason, broken = spark.sparkContext, watchdog(spark), Event()

    def check() -> None:
        if context._jsc.sc().isStopped():
            raise RuntimeError("Spark has ended, so no request can be served")
        if (why := reason("service")) is not None:
            raise RuntimeError(why)
        if broken.is_set():
            raise RuntimeError("files in spark.local.dir are gone: the service ends, and the next one has new folders")

    Service(
        folder,
        partial(serve, spark, broken),
        partial(cancel, spark),
        check,
        make_thread=InheritableThread,
        at_once=options.at_once,
        application=context.applicationId,
        ui=context.uiWebUrl or "",
    ).serve(options.max_runtime, options.drain)
    return 0


def checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options; InvalidSpec for a wrong location, or a number below its minimum."""
    Location.parse(options.service)
    for name, least in LEAST.items():
        if not getattr(options, name) >= least:
            raise invalid(name, getattr(options, name), f"must be at least {least}")
    return options
