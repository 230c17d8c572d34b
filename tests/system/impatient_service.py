"""The service application, with seconds in place of minutes: for how long a request may be left unwatched."""

from __future__ import annotations

import sys

from airflow_backfill.spark.service import service
from airflow_backfill.spark.service.application import main

if __name__ == "__main__":
    service.WATCH_SECONDS, service.UNWATCHED_SECONDS = 1.0, 10.0
    sys.exit(main())
