"""Airflow with a home of its own."""

import os

from tests.airflow.home import HOME

assert os.environ["AIRFLOW_HOME"] == HOME
