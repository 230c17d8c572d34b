"""Reads the source, applies changes to the target. Knows rows and commits, not builds, records or Airflow."""
