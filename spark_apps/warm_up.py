"""The warm-up application: a small build in a temporary folder."""

from __future__ import annotations

import sys

from airflow_backfill.spark.run.warm_up import main

if __name__ == "__main__":
    sys.exit(main())
