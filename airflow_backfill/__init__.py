"""Table backfills for Airflow: a new Delta table from a source that keeps changing.

Importable on a Spark driver: this module imports neither Airflow nor PySpark.
"""

__version__ = "0.1.0"
