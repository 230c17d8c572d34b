"""A service without Spark, as a process: ``python -m tests.airflow.serving FOLDER``."""

from __future__ import annotations

import sys
from threading import Event

from airflow_backfill.core.service.request import Request
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.spark.service import service
from airflow_backfill.testing.applications import main

FOR_EVER = 3600.0


def work(request: Request, stopped: Event) -> None:
    main(request.application, request.arguments)


if __name__ == "__main__":
    service.LOOK_SECONDS = 0.05
    folder = ServiceFolder.at(sys.argv[1])
    service.Service(folder, work, cancel=lambda request: None, check=lambda: None).serve(FOR_EVER, FOR_EVER)
