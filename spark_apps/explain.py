"""The explain application of a table backfill; see `--help`."""

from __future__ import annotations

import sys

from airflow_backfill.spark.run.application import main

if __name__ == "__main__":
    sys.exit(main("explain"))
