"""The page in Airflow: a small API over committed state, and a bundle of plain JavaScript that shows it."""
