"""The landing application, an example of a shared ingestion; see `--help`."""

from __future__ import annotations

import sys

from airflow_backfill.spark.run.landing_app import main

if __name__ == "__main__":
    sys.exit(main())
