"""Airflow for tests: a home of its own, set before anything imports Airflow."""

from __future__ import annotations

import os
import tempfile

HOME = tempfile.mkdtemp(prefix="airflow-home-")

os.environ.update(
    {
        "AIRFLOW_HOME": HOME,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)
