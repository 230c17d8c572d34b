"""What each strategy does on Spark: how its build is prepared, and how its rounds are read and written."""
