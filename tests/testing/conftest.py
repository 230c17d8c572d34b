"""Tasks without a DAG."""

from tests.airflow.task import context, source, target

__all__ = ["context", "source", "target"]
