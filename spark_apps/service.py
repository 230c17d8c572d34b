"""The service application of table backfills; see `--help`."""

from __future__ import annotations

import sys

from airflow_backfill.spark.service.application import main

if __name__ == "__main__":
    sys.exit(main())
