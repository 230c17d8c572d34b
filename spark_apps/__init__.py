"""Entry points of the Spark applications; installed as ``airflow_backfill.spark_apps``."""
