"""Reads the source and writes the target with Spark. Never imports Airflow."""
