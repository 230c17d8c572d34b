"""Airflow for tests: a home of its own, set before anything imports Airflow. Nothing that is set for another Airflow
counts: tests delete all rows of the database.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="airflow-home-")
OWNER = os.getpid()


@atexit.register
def leave() -> None:
    if os.getpid() == OWNER:  # not a fork of it
        shutil.rmtree(HOME, ignore_errors=True)


for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
    del os.environ[name]
os.environ.update(
    {
        "AIRFLOW_HOME": HOME,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)
