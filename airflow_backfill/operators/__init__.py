"""The phases of a table backfill as Airflow operators."""
