"""The example ingestion with a local Spark: lands new records of a topic until it is stopped."""

from __future__ import annotations

import sys

from airflow_backfill.spark.run.landing_app import main
from demo.session import session

if __name__ == "__main__":
    session("ingestion")
    sys.exit(main())
