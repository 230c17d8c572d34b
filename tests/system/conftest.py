"""The session of the Spark tests serves the oracles here, too."""

from tests.spark.conftest import spark

__all__ = ["spark"]
