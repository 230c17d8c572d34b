"""The command line: ``table-backfill``. Reads the ledger without a JVM; imports neither Airflow nor PySpark."""
